"""SPICE: `metric` scores rows; `jar_process` runs the parser and scorer and keeps parsed captions, `models` fetches the jars."""
