"""Candidate files as models see them: the loader folded to one line, the reference under its new name."""

import io
import itertools
import tokenize
from collections.abc import Iterable
from functools import cache

from kernelwright.targets.base import Loader
from kernelwright.targets.module_file.constructor import NEW_NAME
from kernelwright.targets.registry import all_targets

LOADER_LINE = "# --- loader ---"
"""Stands for the text that compiles and opens what a candidate holds as a literal: it is the same in every
file of a language, so no answer has to repeat it."""

APPROACH_CHARS = 300
_APPROACH = "# Approach: "


def fold(source: str) -> str:
    """Return the source with the loader as one line."""
    for loader in _loaders():
        source = source.replace(_with_imports(loader.imports, loader.text), LOADER_LINE)
        source = source.replace(loader.text, LOADER_LINE)
    return source


def unfold(source: str) -> str:
    """Return the source with its language's loader in place of the line; one without the line as it is.

    Imports that the loader needs and the file lacks are added before it.
    """
    lines = source.split("\n")
    places = [n for n, line in enumerate(lines) if line.strip() == LOADER_LINE]
    if not places:
        return source
    loader = next((one for one in _loaders() if one.marker.search(source)), _loaders()[0])
    wanted = [line for line in loader.imports if line not in lines]
    lines[places[0]] = _with_imports(wanted, loader.text) if wanted else loader.text
    return "\n".join(line for n, line in enumerate(lines) if n not in places[1:])


def with_approach(source: str, approach: str) -> str:
    """Return the source with its author's one sentence as the first line, a comment; empty adds nothing."""
    line = " ".join(approach.split())[:APPROACH_CHARS]
    return f"{_APPROACH}{line}\n{source}" if line else source


def approach_of(source: str) -> str:
    """Return the sentence that ``with_approach`` wrote, empty where there is none."""
    first = source.partition("\n")[0]
    return first.removeprefix(_APPROACH) if first.startswith(_APPROACH) else ""


@cache
def _loaders() -> tuple[Loader, ...]:
    """Return the loaders of all targets."""
    return tuple(target.loader for target in all_targets() if target.loader is not None)


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
