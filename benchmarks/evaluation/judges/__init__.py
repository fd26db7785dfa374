"""The credibility of the answers of a judge, or of a metric with a threshold."""
