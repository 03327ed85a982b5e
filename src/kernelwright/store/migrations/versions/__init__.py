"""One file a version; the number is that of the version it leads to."""
