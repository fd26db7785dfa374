"""UMIC (Lee et al. 2021): the metric, its training recipe, and the UNITER network that both run."""
