"""Whole models: which blocks they have, what each is worth, and how a model is put together with kernels.

``blocks.py``, ``sharing.py`` and ``composing.py`` decide and are pure; ``profiling.py`` runs a model,
``patching.py`` puts kernels into one and ``printing.py`` writes the candidate that the referee judges. May
import everything below ``warm``. Begin with ``blocks.py``; ``api/models_apart.py`` calls it all.
"""
