"""The C++ of several programs as one source, so that one library holds all their functions."""

import re
from collections.abc import Sequence

from kernelwright.core.open_parameters import open_parameters
from kernelwright.targets.cpp.build import CppSource, find_cpp_source
from kernelwright.targets.module_file.nested import without

_EXPORTED = re.compile(r'extern\s+"C"\s+[\w\s*&:<>]*?\b(\w+)\s*\(')
_BLOCK = re.compile(r'extern\s+"C"\s*\{')


def combine_cpp(programs: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """See ``Target.combined``. A program whose C++ cannot stand beside other C++ keeps its own."""
    found = [_combinable(program) for program in programs]
    flags = next((source.flags for source in found if source is not None), ())
    includes: list[str] = []
    bodies: list[str] = []
    left: list[str] = []
    for number, (program, source) in enumerate(zip(programs, found, strict=True)):
        if source is None or source.flags != flags:
            left.append(program)
            continue
        names = {name: f"{name}_of_{number}" for name in _EXPORTED.findall(source.text)}
        lines = source.text.splitlines()
        includes += [line for line in lines if line.lstrip().startswith("#include")]
        body = "\n".join(line for line in lines if not line.lstrip().startswith("#include"))
        for name, new in names.items():
            body = re.sub(rf"\b{name}\b", new, body)
        bodies.append(f"namespace block_{number} {{\n{body}\n}}")
        left.append(without(program, names, ("CPP_SOURCE", "CXX_FLAGS")))
    if not bodies:
        return "", tuple(left)
    text = "\n".join([*dict.fromkeys(includes), *bodies]) + "\n"
    return f"CPP_SOURCE = {text!r}\n\nCXX_FLAGS = {flags!r}", tuple(left)


def _combinable(program: str) -> CppSource | None:
    if open_parameters(program):
        return None
    source = find_cpp_source(program)
    is_plain = source is not None and not _BLOCK.search(source.text)
    return source if is_plain else None
