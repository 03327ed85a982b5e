"""Contract suites and doubles for every extension point."""
