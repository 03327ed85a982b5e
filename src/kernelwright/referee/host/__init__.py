"""The trusted child that runs the reference: eager, torch.compile, float64 oracle. Begin with ``main.py``."""
