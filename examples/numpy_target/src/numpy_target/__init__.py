"""The target ``cpu/numpy``: Kernelwright's lowered programs as NumPy. Begin with ``target.py``."""
