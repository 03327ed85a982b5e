"""The probes that make a Machine: processor, caches, measured peaks, compiler, counters.

No other package asks the operating system what the machine is. May import core. Begin with ``probe.py``.
"""
