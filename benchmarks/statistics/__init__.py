"""Statistics of scores and ratings: arrays in, numbers out.

The modules know no dataset, no file and no command. `evaluation` calls them for every table, and `scoring` to
compare systems. Each result carries `remarks`, codes of what limits it.
"""
