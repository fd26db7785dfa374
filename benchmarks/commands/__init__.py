"""One module for each command that scores or compares: it reads its options and runs what `evaluation` holds."""
