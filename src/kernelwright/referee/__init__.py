"""The referee: guard, build, load, verify, time, replay. The team has no channel to it.

``session/`` is the trusted parent, ``host/`` the trusted child with the reference, ``worker/`` the untrusted
child with the candidate. ``sandbox/`` confines both; ``checks/`` and ``timing/`` decide. May import core,
machine, tasks and targets; ``worker/`` imports core alone. Begin with ``session/referee.py``.
"""
