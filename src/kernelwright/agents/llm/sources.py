"""Candidate files as models see them: the loader folded to one line, the reference under its new name."""

import io
import itertools
import re
import tokenize
from collections.abc import Iterable

from kernelwright.targets.cpp.runtime_source import LOADER
from kernelwright.targets.cuda import runtime_source as cuda
from kernelwright.targets.module_file.constructor import NEW_NAME

LOADER_LINE = "# --- loader ---"
"""Stands for the text that compiles and opens ``CPP_SOURCE``, or ``CUDA_SOURCE``: it is the same in every
file of a language, so no answer has to repeat it."""
_IMPORTS = (
    "import ctypes",
    "import hashlib",
    "import os",
    "import subprocess",
    "import tempfile",
    "from pathlib import Path",
)
"""What either loader needs beside torch."""
_CUDA = re.compile(r"^CUDA_SOURCE\b", re.M)
_LOADERS = (LOADER.strip(), cuda.LOADER.strip())


def fold(source: str) -> str:
    """Return the source with the loader as one line."""
    for loader in _LOADERS:
        source = source.replace(_with_imports(_IMPORTS, loader), LOADER_LINE).replace(loader, LOADER_LINE)
    return source


def unfold(source: str) -> str:
    """Return the source with its language's loader in place of the line; one without the line as it is.

    Imports that the loader needs and the file lacks are added before it.
    """
    lines = source.split("\n")
    places = [n for n, line in enumerate(lines) if line.strip() == LOADER_LINE]
    if not places:
        return source
    loader = _LOADERS[_CUDA.search(source) is not None]
    wanted = [line for line in _IMPORTS if line not in lines]
    lines[places[0]] = _with_imports(wanted, loader) if wanted else loader
    return "\n".join(line for n, line in enumerate(lines) if n not in places[1:])


def _with_imports(imports: Iterable[str], loader: str) -> str:
    return "\n".join([*imports, "", "", loader])


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
