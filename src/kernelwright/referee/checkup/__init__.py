"""Checks of a task itself: what makes speedups on it worthless. One check a file; see docs/check.md."""
