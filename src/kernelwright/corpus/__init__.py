"""Candidates that must not win, cheats and hostile programs, and what judges them all."""
