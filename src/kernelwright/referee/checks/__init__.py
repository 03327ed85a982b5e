"""What the parent checks of a candidate: source, outputs, replay, work between calls.

One check a file. Begin with ``verify.py``.
"""
