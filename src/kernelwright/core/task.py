"""The task: a reference to make faster, its workloads, and the contract that candidates must keep."""

from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from pydantic import Field, model_validator

from kernelwright.core.dynamic import DynamicAxis
from kernelwright.core.frozen import Frozen, content_hash

Scalar: TypeAlias = bool | int | float | str | None
Literal_: TypeAlias = Scalar | tuple[Scalar, ...]
"""Values that a module-level global of a task may be rebound to."""


class Mode(StrEnum):
    """The mode of the module when it is called."""

    TRAIN = "train"
    """As constructed, like KernelBench: batch norm uses batch statistics and updates its buffers."""
    EVAL = "eval"
    """``.eval()`` is called on both sides."""


class TolerancePolicy(StrEnum):
    """How far from the float64 oracle a candidate may be; see ``referee/checks/tolerance.py``."""

    STRICT = "strict"
    """As far as honest float32 arithmetic in another order may be."""
    TF32 = "tf32"
    """Inputs of matrix products may be rounded to 10 bits of mantissa."""
    BF16 = "bf16"
    """Inputs of matrix products may be rounded to 7 bits of mantissa."""
    KERNELBENCH = "kernelbench"
    """``allclose`` at 1e-4 against the float32 reference, as KernelBench at 423217d does."""

    @property
    def may_round(self) -> bool:
        """True where inputs of products may have fewer bits than float32."""
        return self in (TolerancePolicy.TF32, TolerancePolicy.BF16)


class Workload(Frozen):
    """One binding of the task's module-level globals, hence of its shapes."""

    name: str = "default"
    overrides: dict[str, Literal_] = Field(default_factory=dict)
    """Global name -> literal that replaces the one in the source. Empty: the source as it is."""
    is_timed: bool = True
    """False: candidates are verified on it, and that is all."""


class Task(Frozen):
    """A reference in KernelBench's format and its contract, which no agent may change.

    ``source`` defines ``Model``, ``get_inputs`` and ``get_init_inputs``. A live module becomes a task
    too: its source is a shim that loads the pickled module from ``artifact``.
    """

    name: str
    source: str
    workloads: tuple[Workload, ...] = (Workload(),)
    mode: Mode = Mode.TRAIN
    tolerance: TolerancePolicy = TolerancePolicy.STRICT
    path: str | None = None
    """File the source was read from, for messages only; not part of the identity."""
    artifact: str | None = None
    """Absolute path of the pickled live module that the shim loads; None for file tasks."""
    class_source: str | None = None
    """Source of a live module's classes as far as it could be read, to be shown; not part of the identity."""
    likeness: str | None = None
    """Of a live module: the same for modules that compute the same on other weights and are called with other
    tensors of the same form (``tasks/likeness.py``); None where nobody can tell. Not part of the identity."""
    dynamic: tuple[DynamicAxis, ...] = ()
    """Extents that vary, as ``tasks/dynamic.py`` prepared the source and the workloads for."""

    @model_validator(mode="after")
    def _workloads_are_named_apart(self) -> "Task":
        names = [workload.name for workload in self.workloads]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"workload names must be unique and at least one: {names}")
        return self

    @property
    def timed_workloads(self) -> tuple[Workload, ...]:
        """The workloads that candidates are timed on; the first one is what they are made for."""
        return tuple(workload for workload in self.workloads if workload.is_timed)

    @cached_property
    def id(self) -> str:
        """Content hash of everything that decides what a right answer is."""
        workloads = [
            workload.model_dump_json(exclude={"is_timed"} if workload.is_timed else None)
            for workload in self.workloads
        ]
        return content_hash(self.source, self.mode, self.tolerance, *workloads)
