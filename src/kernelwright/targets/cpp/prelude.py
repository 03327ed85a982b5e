"""The C++ building blocks, and which of them a source text uses."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ALWAYS = "base"
SHORTENED = ("vexp", "vtanh_softplus", "vsigmoid", "vsoftplus", "verf", "vone_plus_erf")
"""Functions of float32 with a variant ``NAME_5``, made of the exponential of degree 5."""


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
        if name in SHORTENED[1:]:
            found[f"{name}_5"] = _shortened(found[name])
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


def _shortened(block: PreludeBlock) -> PreludeBlock:
    """Return the variant of a block that is made of the shorter exponential."""
    text = block.text.replace("vexp(", "vexp_5(").replace(f"{block.name}(", f"{block.name}_5(")
    needs = tuple("vexp_5" if need == "vexp" else need for need in block.needs)
    return PreludeBlock(f"{block.name}_5", needs, text, frozenset({f"{block.name}_5"}))
