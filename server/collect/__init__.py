"""Studies in which people judge captions: `captau collect`."""
