"""Quality of a study's answers: figures of raters, and agreement with a re-run."""
