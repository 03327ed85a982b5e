"""What the user takes home: a module that behaves like the original and runs the verified kernel.

``making.py`` makes it of a winner, ``saving.py`` and ``runtime/folder.py`` write and read folders, and
``runtime/`` is what runs in the user's program. May import everything below ``api``. Begin with
``runtime/module.py``.
"""
