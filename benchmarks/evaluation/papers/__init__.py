"""The numbers that papers print, and their tables rebuilt cell by cell."""
