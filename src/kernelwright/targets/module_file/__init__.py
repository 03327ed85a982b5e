"""The candidate file that every printed target shares: constructor, forward method, loader.

May import core, tasks and ir. Begin with ``candidate.py``.
"""
