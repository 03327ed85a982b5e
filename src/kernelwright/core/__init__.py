"""The nouns: frozen, no I/O, no torch. Everything else stands on these."""
