"""Runs, events, candidates and outcomes on disk; survives a kill at any moment."""
