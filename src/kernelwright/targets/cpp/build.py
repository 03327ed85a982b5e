"""Build the C++ of a candidate before any of it runs.

A candidate whose C++ is a module-level string literal ``CPP_SOURCE`` with ``CXX_FLAGS`` beside it is built by
the referee's parent process, which runs the compiler confined. The candidate then loads
``$KERNELWRIGHT_BUILD_CACHE/KEY.so``. Whatever else a candidate compiles (``load_inline``) it compiles itself
when it is imported.
"""

import ast
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import folded, open_parameters
from kernelwright.machine.compiler import (
    BuiltLibrary,
    CompileFailure,
    compile_library,
    library_key,
    name_for_loader,
    report_facts,
)
from kernelwright.machine.topology import usable_cores
from kernelwright.targets.base import BuildResult, BuildSite
from kernelwright.targets.cpp.parts import parts_of

LOG_CHARS = 4000
ALLOWED_FLAG = re.compile(
    r"-(O\w*|g\d?|m[\w=.,+-]+|std=[\w+]+|D\w+(=[\w.+-]*)?|l\w+|pthread|pipe|w"
    r"|W(?![alp],)[\w=+-]+|f(?!plugin|dump|profile|auto-profile)[\w=.+-]+)"
)
"""Compiler flags that are allowed: none that loads a plugin, runs a program or names a file."""


@dataclass(frozen=True)
class CppSource:
    """C++ source and flags of a candidate."""

    text: str
    flags: tuple[str, ...]


def find_cpp_source(source: str) -> CppSource | None:
    """Return the candidate's C++ and flags, None when they are no literals, open parameters put in."""
    literals: dict[str, Any] = {}
    try:
        chosen = open_parameters(source)
    except UserError:
        return None
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id in ("CPP_SOURCE", "CXX_FLAGS"):
            try:
                literals[target.id] = folded(value, chosen)
            except (ValueError, TypeError):
                return None
    text, flags = literals.get("CPP_SOURCE"), literals.get("CXX_FLAGS")
    if not isinstance(text, str) or not isinstance(flags, list | tuple):
        return None
    return CppSource(text, tuple(str(flag) for flag in flags))


def build_cpp(source: str, site: BuildSite) -> BuildResult | None:
    """Compile the candidate's C++ unless it has been compiled (see ``targets.base.Build``)."""
    wanted = find_cpp_source(source)
    if wanted is None:
        return None
    refused = [flag for flag in wanted.flags if not ALLOWED_FLAG.fullmatch(flag)]
    if refused:
        return BuildResult(error=f"compiler flags that are not allowed: {' '.join(refused)}")
    try:
        wanted.text.encode()
    except UnicodeEncodeError as error:
        return BuildResult(error=f"CPP_SOURCE: character {error.start} cannot be written to a file")
    is_there = (site.cache_dir / f"{library_key(wanted.text, wanted.flags)}.so").exists()
    parts = parts_of(wanted.text) if site.is_in_parts and not is_there else ()
    built = _in_parts(parts, wanted, site) if len(parts) > 1 else _whole(wanted, site)
    if isinstance(built, CompileFailure):
        return BuildResult(error=_first_error(built.log), log=built.log[-LOG_CHARS:], is_late=built.timed_out)
    facts = report_facts(built.log, built.path, wanted.text) if site.is_reported else None
    library = name_for_loader(built.path, wanted.text, wanted.flags)
    return BuildResult(log=built.log[-LOG_CHARS:], facts=facts, library=library)


def _whole(wanted: CppSource, site: BuildSite) -> BuiltLibrary | CompileFailure:
    return compile_library(
        wanted.text, wanted.flags, site.cache_dir, site.timeout_s, site.run, is_reported=site.is_reported
    )


def _in_parts(parts: Sequence[str], wanted: CppSource, site: BuildSite) -> BuiltLibrary | CompileFailure:
    """Compile each part to a library, and one that is empty and needs them all: a loader looks there, too."""
    with ThreadPoolExecutor(len(usable_cores())) as pool:
        built = list(pool.map(lambda part: _whole(CppSource(part, wanted.flags), site), parts))
    failed = next((one for one in built if isinstance(one, CompileFailure)), None)
    if failed is not None:
        return failed
    paths = [str(one.path.absolute()) for one in built if isinstance(one, BuiltLibrary)]
    return _whole(CppSource("", (*wanted.flags, "-Wl,--no-as-needed", *paths)), site)


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "the compiler failed")
