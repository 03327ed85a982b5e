"""Compiles a candidate's C++ before any of its code runs.

The parent builds a candidate whose C++ is a module-level string literal ``CPP_SOURCE`` with ``CXX_FLAGS``
beside it. The candidate then loads ``$KERNELWRIGHT_BUILD_CACHE/KEY.so``. Anything else (``load_inline``) the
candidate compiles itself when it is imported.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.core.evidence import FactValue
from kernelwright.machine.compiler import CompileFailure, RunCompiler, compile_library, report_facts

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


@dataclass(frozen=True)
class BuildResult:
    """Result of a build; ``error`` is None when the library was built or there was nothing to build."""

    error: str | None = None
    log: str = ""
    facts: dict[str, FactValue] | None = None
    library: Path | None = None
    is_late: bool = False
    """True when the error is that the compiler of GPU code did not end in time."""

    @property
    def is_nothing(self) -> bool:
        """True when there was nothing to build."""
        return self.error is None and self.library is None


def find_cpp_source(source: str) -> CppSource | None:
    """Return the candidate's C++ and flags, None when there are none as plain literals."""
    literals: dict[str, Any] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id in ("CPP_SOURCE", "CXX_FLAGS"):
            try:
                literals[target.id] = ast.literal_eval(value)
            except (ValueError, TypeError):
                return None
    text, flags = literals.get("CPP_SOURCE"), literals.get("CXX_FLAGS")
    if not isinstance(text, str) or not isinstance(flags, list | tuple):
        return None
    return CppSource(text, tuple(str(flag) for flag in flags))


def build(source: str, cache_dir: Path, timeout_s: float, run: RunCompiler | None = None) -> BuildResult:
    """Compile the candidate's C++ unless it has been compiled; raises MachineError without a compiler.

    ``run`` runs the compiler in a sandbox: source text can name any file and keep a compiler busy forever.
    """
    wanted = find_cpp_source(source)
    if wanted is None:
        return BuildResult()
    refused = [flag for flag in wanted.flags if not ALLOWED_FLAG.fullmatch(flag)]
    if refused:
        return BuildResult(error=f"compiler flags that are not allowed: {' '.join(refused)}")
    built = compile_library(wanted.text, wanted.flags, cache_dir, timeout_s, run)
    if isinstance(built, CompileFailure):
        return BuildResult(error=_first_error(built.log), log=built.log[-LOG_CHARS:])
    facts = report_facts(built.log, built.path)
    return BuildResult(log=built.log[-LOG_CHARS:], facts=facts, library=built.path)


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "the compiler failed")
