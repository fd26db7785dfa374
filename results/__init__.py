"""Numbers to compare with: `published/` as papers print them, read by `captau reproduce`."""
