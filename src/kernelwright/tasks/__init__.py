"""Where work comes from, and what it must cost at least."""
