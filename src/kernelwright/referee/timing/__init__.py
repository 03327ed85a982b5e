"""How the parent times candidate and baselines, and what a ratio is worth. Begin with ``measure.py``."""
