"""The front door: what the command line can do, a program can.

``front.py`` has the functions, one for each command that judges or runs; they make a request of their
keywords and give it to ``begin`` and ``run_*``, which the command line calls with the request that it
parsed. May import everything below it; loads torch. Begin with ``front.py``.
"""

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
from kernelwright.api.optimizing import OptimizeResult
from kernelwright.api.playing import carry_on, open_referee, play, record_run, replay_run
from kernelwright.api.spaces import run_space
from kernelwright.api.starting import Begun, begin, find_run, resume
from kernelwright.api.tuning import run_tune
from kernelwright.runs.interruption import BestSoFar, best_so_far
from kernelwright.store.sqlstore import open_store

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
    "find_run",
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
