"""What else a careful user picks, made callable like the reference. Begin with ``make.py``."""
