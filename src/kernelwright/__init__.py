"""Kernelwright: a PyTorch module in, a verified faster one out.

``optimize`` searches, ``evaluate`` and ``compare_kernels`` judge kernels, ``bench`` and ``compare`` run
many tasks, ``check`` and ``audit`` look at tasks and at the referee itself, ``runs`` lists what a store
holds. The nouns that they take and give are here as well. Nothing is loaded before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelwright.core.version import __version__

if TYPE_CHECKING:
    from kernelwright.api.front import (
        audit,
        bench,
        check,
        compare,
        compare_kernels,
        evaluate,
        load,
        optimize,
        report,
        runs,
        space,
        tune,
    )
    from kernelwright.api.optimizing import OptimizeResult
    from kernelwright.core.budget import Budget
    from kernelwright.core.candidate import Candidate
    from kernelwright.core.checkup import Checkup
    from kernelwright.core.errors import KernelwrightError, MachineError, StoreError, TaskError, UserError
    from kernelwright.core.evaluation import Evaluation, Status
    from kernelwright.core.machine import Machine
    from kernelwright.core.models import ModelSettings, RoleModel
    from kernelwright.core.plan import Move, Plan
    from kernelwright.core.policy import LibraryCalls, Policy
    from kernelwright.core.request import (
        AuditRequest,
        BenchRequest,
        CheckRequest,
        CompareRequest,
        EvaluateRequest,
        RunRequest,
        SpaceRequest,
        TuneRequest,
    )
    from kernelwright.core.target import TargetName
    from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
    from kernelwright.delivery.runtime.calls import CallReport, NotVerifiedError, strict
    from kernelwright.report.results import BenchResult, CheckResult, ComparisonResult, KernelComparison
    from kernelwright.report.spaces import SpaceResult
    from kernelwright.report.tuned import TuneResult
    from kernelwright.settings import Settings, load_settings
    from kernelwright.store.base import Store
    from kernelwright.store.sqlstore import open_store
    from kernelwright.targets.base import Target

_HOMES = {
    "api.front": (
        "audit", "bench", "check", "compare", "compare_kernels", "evaluate", "load", "optimize", "report",
        "runs", "space", "tune",
    ),
    "api.optimizing": ("OptimizeResult",),
    "core.budget": ("Budget",),
    "core.candidate": ("Candidate",),
    "core.checkup": ("Checkup",),
    "core.errors": ("KernelwrightError", "MachineError", "StoreError", "TaskError", "UserError"),
    "core.evaluation": ("Evaluation", "Status"),
    "core.models": ("ModelSettings", "RoleModel"),
    "core.plan": ("Move", "Plan"),
    "core.policy": ("LibraryCalls", "Policy"),
    "core.request": (
        "AuditRequest", "BenchRequest", "CheckRequest", "CompareRequest", "EvaluateRequest", "RunRequest",
        "SpaceRequest", "TuneRequest",
    ),
    "core.machine": ("Machine",),
    "core.target": ("TargetName",),
    "targets.base": ("Target",),
    "core.task": ("Mode", "Task", "TolerancePolicy", "Workload"),
    "delivery.runtime.calls": ("CallReport", "NotVerifiedError", "strict"),
    "report.results": ("BenchResult", "CheckResult", "ComparisonResult", "KernelComparison"),
    "report.spaces": ("SpaceResult",),
    "report.tuned": ("TuneResult",),
    "settings": ("Settings", "load_settings"),
    "store.base": ("Store",),
    "store.sqlstore": ("open_store",),
}  # fmt: skip
"""Module -> the names of ours that are found there."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AuditRequest",
    "BenchRequest",
    "BenchResult",
    "Budget",
    "CallReport",
    "Candidate",
    "CheckRequest",
    "CheckResult",
    "Checkup",
    "CompareRequest",
    "ComparisonResult",
    "EvaluateRequest",
    "Evaluation",
    "KernelComparison",
    "KernelwrightError",
    "LibraryCalls",
    "Machine",
    "MachineError",
    "Mode",
    "ModelSettings",
    "Move",
    "NotVerifiedError",
    "OptimizeResult",
    "Plan",
    "Policy",
    "RoleModel",
    "RunRequest",
    "Settings",
    "SpaceRequest",
    "SpaceResult",
    "Status",
    "Store",
    "StoreError",
    "Target",
    "TargetName",
    "Task",
    "TaskError",
    "TolerancePolicy",
    "TuneRequest",
    "TuneResult",
    "UserError",
    "Workload",
    "__version__",
    "audit",
    "bench",
    "check",
    "compare",
    "compare_kernels",
    "evaluate",
    "load",
    "load_settings",
    "open_store",
    "optimize",
    "report",
    "runs",
    "space",
    "strict",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that importing the package stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
    return getattr(import_module(f"kernelwright.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
