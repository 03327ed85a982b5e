"""The C++ building blocks, and which of them a source text uses."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ALWAYS = "base"


@dataclass(frozen=True)
class PreludeBlock:
    """A named piece of ``prelude.h``."""

    name: str
    needs: tuple[str, ...]
    text: str
    defines: frozenset[str]
    """Identifiers of its functions; a source that mentions one gets the block."""


@cache
def blocks() -> dict[str, PreludeBlock]:
    """Return the pieces of ``prelude.h`` in the order of the file."""
    text = files("kernelwright.targets.cpp").joinpath("prelude.h").read_text(encoding="utf-8")
    found: dict[str, PreludeBlock] = {}
    for piece in re.split(r"^//: ", text, flags=re.M)[1:]:
        head, _, body = piece.partition("\n")
        name, _, needs = head.partition(" needs ")
        defines = frozenset(re.findall(r"^(?:template <[^>]*> )?static inline \w+ (\w+)\(", body, re.M))
        found[name] = PreludeBlock(name, tuple(needs.split()), body.strip() + "\n", defines)
    return found


def prelude_for(source: str) -> str:
    """Return the blocks that the source uses, directly or not, in the order of the file."""
    mentioned = set(re.findall(r"\w+", source))
    wanted = {ALWAYS}
    pending = [b.name for b in blocks().values() if b.defines & mentioned]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending.extend(blocks()[name].needs)
    return "\n".join(block.text for block in blocks().values() if block.name in wanted)
