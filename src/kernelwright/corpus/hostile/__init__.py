"""Hostile programs, one file each; data, never imported."""
