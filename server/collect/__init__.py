"""A site on which people rate captions: `captau collect`.

Imports run in this direction: `items` (captions and images to rate) → `forms` (one module a form) → `study`
(the definition in YAML) → `store` (its database) → `rater_figures` and `export` → `web` (its pages) → `simulation`.
`commands` holds what the command line calls.
"""
