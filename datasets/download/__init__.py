"""Ways of getting a dataset's files: from the network, or from a folder or an archive on this machine."""
