"""Spaces of real GPUs that others have measured point by point: a point is evaluated by looking it up.

The data is published, is fetched by whoever runs this, and is never part of the repository. The tuner, what
it remembers and what it guesses are the product's own code; only building and timing are looked up. Begin
with ``space.py``.
"""
