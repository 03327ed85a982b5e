"""A referee that stays between the commands of one user, so that a verdict takes one or two seconds.

``client.py`` is what commands use: it finds the process, or starts it, and sends it what is to be judged over
a Unix socket. ``server.py`` is the process; ``judge.py`` holds its referee and open tasks. May import the
referee, ``runs`` and ``remote``, whose records and queue it uses. Begin with ``client.py``.
"""
