"""Whether the answers of a judge, or of a metric with a threshold, can be believed."""
