"""The command line: one thin file per command; everything it does a library user can call too."""
