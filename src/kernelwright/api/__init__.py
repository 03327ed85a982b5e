"""The front door: what the command line can do, a program can.

``front.py`` has the functions, one for each command that judges or runs; they make a request of their
keywords and give it to ``begin`` and ``run_*``, which the command line calls with the request that it
parsed. May import everything below it. Nothing is loaded before it is used: to judge a kernel
needs no torch in this process. Begin with ``front.py``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.api.auditing import run_audit
    from kernelwright.api.benching import run_bench
    from kernelwright.api.checking import run_check
    from kernelwright.api.comparing import run_compare
    from kernelwright.api.experiments import title_for
    from kernelwright.api.front import (
        audit,
        bench,
        check,
        compare,
        compare_kernels,
        evaluate,
        load,
        optimize,
        runs,
        space,
        tune,
    )
    from kernelwright.api.judging import run_evaluate
    from kernelwright.api.machines import bound_settings
    from kernelwright.api.models_apart import finish_by_blocks
    from kernelwright.api.optimizing import OptimizeResult
    from kernelwright.api.playing import carry_on, play, record_run, replay_run
    from kernelwright.api.referees import open_referee
    from kernelwright.api.spaces import run_space
    from kernelwright.api.starting import Begun, begin, resume
    from kernelwright.api.training import finish_with_backward
    from kernelwright.api.tuning import run_tune
    from kernelwright.runs.interruption import BestSoFar, best_so_far
    from kernelwright.store.sqlstore import open_store

_HOMES = {
    "api.auditing": ("run_audit",),
    "api.benching": ("run_bench",),
    "api.checking": ("run_check",),
    "api.comparing": ("run_compare",),
    "api.experiments": ("title_for",),
    "api.front": (
        "audit", "bench", "check", "compare", "compare_kernels", "evaluate", "load", "optimize", "runs",
        "space", "tune",
    ),
    "api.judging": ("run_evaluate",),
    "api.machines": ("bound_settings",),
    "api.models_apart": ("finish_by_blocks",),
    "api.optimizing": ("OptimizeResult",),
    "api.playing": ("carry_on", "play", "record_run", "replay_run"),
    "api.referees": ("open_referee",),
    "api.spaces": ("run_space",),
    "api.starting": ("Begun", "begin", "resume"),
    "api.training": ("finish_with_backward",),
    "api.tuning": ("run_tune",),
    "runs.interruption": ("BestSoFar", "best_so_far"),
    "store.sqlstore": ("open_store",),
}  # fmt: skip
"""Module -> the names that are found there."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Begun",
    "BestSoFar",
    "OptimizeResult",
    "audit",
    "begin",
    "bench",
    "best_so_far",
    "bound_settings",
    "carry_on",
    "check",
    "compare",
    "compare_kernels",
    "evaluate",
    "finish_by_blocks",
    "finish_with_backward",
    "load",
    "open_referee",
    "open_store",
    "optimize",
    "play",
    "record_run",
    "replay_run",
    "resume",
    "run_audit",
    "run_bench",
    "run_check",
    "run_compare",
    "run_evaluate",
    "run_space",
    "run_tune",
    "runs",
    "space",
    "title_for",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Load a name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kernelwright.{_HOME[name]}"), name)
