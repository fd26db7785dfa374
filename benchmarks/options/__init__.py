"""Options of the commands, a module each: typed, validated, and declared once with their help texts."""
