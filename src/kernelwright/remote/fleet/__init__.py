"""A fleet: referees on the devices of a cluster, each with a device of its own.

``fleet.py`` knows the devices and gives them out, ``worker.py`` is what runs beside a device, ``session.py``
is what a run sees. Only ``ray_cluster.py`` speaks to Ray; everything else is tested without it. Imports
nothing that ``remote/`` may not; begin with ``fleet.py``.
"""
