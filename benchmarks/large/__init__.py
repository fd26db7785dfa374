"""Caption sets too large for memory: stages over shards, on this machine or a cluster."""
