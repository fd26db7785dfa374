"""The charts of finished runs and of commands, with their numbers."""
