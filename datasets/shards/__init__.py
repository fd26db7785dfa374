"""Large sets of captions in shards: Parquet, JSON lines and WebDataset tar files, here or behind a URL.

`shard_files` finds shards and copies remote ones to this machine, and `shard_rows` reads their rows batch by batch,
so that a shard's length does not matter, and copies rows that are kept.
"""
