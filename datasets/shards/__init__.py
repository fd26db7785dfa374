"""Large sets of captions in shards: Parquet, JSON lines and WebDataset tar files, here or behind a URL.

`shard_files` finds shards and copies remote ones to this machine, `shard_rows` reads their rows batch by batch, so that a
shard's length does not matter, and `kept_rows` copies the rows that are kept.
"""
