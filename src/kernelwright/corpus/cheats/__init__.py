"""Cheats, one file each; data, never imported."""
