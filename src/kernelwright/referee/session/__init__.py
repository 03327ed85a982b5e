"""The trusted parent: it owns sources, seeds, the clock and the verdict, and starts every other process.

Begin with ``referee.py``, then ``judging.py``, then ``stages.py``, the stages in their order.
"""
