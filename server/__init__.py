"""Web sites on which people rate captions (`collect`) and submit captions to a challenge (`challenge`).

`web` and `storage` hold what both sites share. The server imports the other packages; none imports it.
"""
