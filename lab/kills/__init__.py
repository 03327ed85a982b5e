"""Kill a run with its processes at a given moment, carry it on, and say what was spoiled."""
