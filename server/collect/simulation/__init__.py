"""Simulated raters, played through a study's own web site: `captau collect simulate`."""
