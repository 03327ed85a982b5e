"""One run: the loop, its steps, budgets, journal and tape, and what makes a run survive a kill.

Knows roles and policies as protocols only. May import everything below agents, and the roles' protocols in
agents. Begin with ``loop.py``.
"""
