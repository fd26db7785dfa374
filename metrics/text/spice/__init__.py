"""SPICE: `metric` scores rows; `java_program` runs the parser and scorer, `models` fetches them, `scene_store` keeps parsed captions."""
