"""What the classes of a live module look like, for those who write kernels for it."""

import inspect
import textwrap

from torch import nn

MAX_CHARACTERS = 20_000
"""Of all classes together; our choice."""


def class_sources(module: nn.Module) -> str | None:
    """Return the source of the module's classes, its own first, without torch's and without imports.

    None where none can be read, as for a class that was typed into a console. Files are read, nothing is run.
    A class that would make the text longer than MAX_CHARACTERS is left out with all that come after it.
    """
    kinds = dict.fromkeys(type(part) for part in module.modules())
    found: list[str] = []
    for kind in kinds:
        source = "" if kind.__module__.partition(".")[0] == "torch" else _source(kind)
        if sum(map(len, found)) + len(source) > MAX_CHARACTERS:
            break
        found += [source] if source else []
    return "\n\n\n".join(found) or None


def _source(kind: type) -> str:
    try:
        return textwrap.dedent(inspect.getsource(kind)).strip()
    except (OSError, TypeError, SyntaxError, ValueError):  # no file, a changed file, no Python source
        return ""
