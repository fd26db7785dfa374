"""Accounts of a challenge site: members, their teams and the tokens of their programs."""
