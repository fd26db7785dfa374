"""The database of a study, on which each concern has a module: participants, assignment, answers."""
