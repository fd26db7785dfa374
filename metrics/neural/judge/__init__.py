"""Language models as judges: `metric` scores captions, `pairs` compares two; prompts are in `prompts/`."""
