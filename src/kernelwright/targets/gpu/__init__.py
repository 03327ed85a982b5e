"""What targets for GPUs share: facts, limits and peaks of devices, ahead-of-time builds, profilers.

May import core, machine and the other targets' compilers. Begin with ``facts.py``.
"""
