"""HIP C++ without a device: compiled to AMD's assembly, its resources and instructions read."""
