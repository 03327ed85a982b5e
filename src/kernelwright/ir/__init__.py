"""The compiler that knows no language: graph rewrites, lowering to loop IR, analyses and fusion.

What a device or a language needs is in ``targets``. May import core and tasks. Begin with ``program.py``.
"""
