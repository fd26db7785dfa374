"""Pages, sessions, forms, passwords and rate limits that both sites share."""
