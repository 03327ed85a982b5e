"""HIP C++ for AMD GPUs: compiled without a device. Begin with ``hipcc/``."""
