"""Candidate files as models see them: the loader folded to one line, the reference under its new name."""

import io
import itertools
import tokenize

from kernelwright.kernels.model_source import NEW_NAME
from kernelwright.kernels.runtime_source import LOADER

LOADER_LINE = "# --- loader ---"
"""Stands for the text that compiles and opens ``CPP_SOURCE``: it is the same in every file, so no answer
has to repeat it."""
_IMPORTS = (
    "import ctypes",
    "import hashlib",
    "import os",
    "import subprocess",
    "import tempfile",
    "from pathlib import Path",
)
_WITH_IMPORTS = "\n".join([*_IMPORTS, "", "", LOADER.strip()])


def fold(source: str) -> str:
    """Return the source with the loader as one line."""
    return source.replace(_WITH_IMPORTS, LOADER_LINE).replace(LOADER.strip(), LOADER_LINE)


def unfold(source: str) -> str:
    """Return the source with the loader in place of its line; sources without the line come back as is.

    Imports that the loader needs and the file lacks are added before it.
    """
    lines = source.split("\n")
    places = [n for n, line in enumerate(lines) if line.strip() == LOADER_LINE]
    if not places:
        return source
    wanted = [line for line in _IMPORTS if line not in lines]
    loader = "\n".join([*wanted, "", "", LOADER.strip()]) if wanted else LOADER.strip()
    lines[places[0]] = loader
    return "\n".join(line for n, line in enumerate(lines) if n not in places[1:])


def renamed_reference(source: str) -> str:
    """Return the reference with ``Model`` as ``ModelNew``, everything else as it is, comments included.

    Only the name is changed: not attributes, strings or longer names.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    for before, token in reversed(list(itertools.pairwise(tokens))):
        if token.type == tokenize.NAME and token.string == "Model" and before.string != ".":
            row, column = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:column] + NEW_NAME + lines[row][column + len("Model") :]
    return "".join(lines)
