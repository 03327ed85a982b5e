"""Closes the parameters that a candidate leaves open, and chooses among points of a space of programs.

Many points are built and timed in one confined process, whose figures guide and never judge: the referee
judges what wins here. May import the referee's sandbox and everything below it. Begin with ``search.py``.
"""
