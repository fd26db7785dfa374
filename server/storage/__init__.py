"""The database that a site works on, its migration, clock and settings."""
