"""Small tasks that the specimens are for; data, never imported."""
