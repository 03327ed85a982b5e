"""CUDA C++ without a device: compiled for an architecture, its resources read, a launcher without torch."""
