"""Targets: one folder for each device and language that kernels are written for.

A target prints, builds, loads, inspects and profiles kernels; nothing outside this package asks which device
or language a target is. May import core, machine, tasks and ir. Begin with ``base.py``, then read ``cpp/``.
"""
