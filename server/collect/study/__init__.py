"""The definition of a study, and the reader of its YAML file."""
