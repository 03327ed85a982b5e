"""The correct kernels that mutants are made of: our kernels for the suite's tasks at small odd sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.core.plan import Plan
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.ir.plan_lowering import lower_plan, write_source
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.lowering import LOWERING
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.suite import suite_tasks

Sizes = Mapping[str, Literal_]


@dataclass(frozen=True)
class Base:
    """One task and sizes at which every loop has a tail and threads have work.

    Where a result is a row of floats their number is 2 modulo 4: glibc then leaves no room behind it, and
    what is written there is found. Norms are over few elements, so that one more or less is seen.
    """

    number: int
    sizes: Sizes
    replaced: tuple[str, str] | None = None
    """What in the source becomes what: the suite has no inputs that do not lie row by row."""
    name_suffix: str = ""
    has_kernel: bool = True
    """Our printer writes its loops; else only the reference's meaning is changed."""
    long: Sizes | None = None
    """Sizes for mistakes between threads, which must run long enough to meet; None: the usual ones."""

    @property
    def for_threads(self) -> "Base":
        """The same at the long sizes."""
        return self if self.long is None else replace(self, sizes=self.long, long=None)

    @property
    def task(self) -> Task:
        """The suite's task at these sizes."""
        task = next(t for t in suite_tasks() if t.name.partition("_")[0] == str(self.number))
        source = task.source.replace(*self.replaced) if self.replaced else task.source
        if self.replaced and source == task.source:
            raise ValueError(f"{task.name}: {self.replaced[0]!r} is not in the source")
        return task.model_copy(
            update={
                "name": task.name + self.name_suffix,
                "source": source,
                "workloads": (Workload(overrides=dict(self.sizes)),),
            }
        )

    def kernel(self) -> str:
        """Return the candidate that our printer writes for the task: fused, default schedules."""
        task = self.task
        carried = lower_plan(capture_task(task, task.workloads[0]), Plan(), {}, LOWERING)
        return write_source(task, {task.workloads[0].name: carried}, Plan(), render_cpp_candidate)


def _meaning(number: int, **sizes: int) -> Base:
    return Base(number, sizes, has_kernel=False)


_TURNED_ROWS = ("torch.randn(batch_size, features)", "torch.randn(features, batch_size).t()")

BASES: tuple[Base, ...] = (
    Base(1, {"batch_size": 157, "features": 1003}),
    Base(2, {"batch_size": 133, "features": 1003}),
    Base(3, {"batch_size": 133, "features": 1003}),
    Base(4, {"batch_size": 7, "channels": 13, "height": 31, "width": 37}),
    Base(5, {"batch_size": 5, "channels": 23, "height": 29, "width": 31}),
    Base(6, {"batch_size": 133, "features": 1003}),
    Base(7, {"batch_size": 146, "features": 1003}),
    Base(8, {"batch_size": 203, "features": 1117}),
    Base(9, {"batch_size": 7, "steps": 167, "features": 153}),
    Base(10, {"batch_size": 3, "rows": 73, "features": 531}),
    Base(11, {"batch_size": 142, "features": 803}),
    Base(12, {"batch_size": 3, "steps": 57, "features": 731}),
    Base(13, {"batch_size": 15, "channels": 24, "height": 11, "width": 13}),
    Base(
        14,
        {"batch_size": 5, "channels": 13, "height": 11, "width": 13},
        long={"batch_size": 65, "channels": 13, "height": 57, "width": 61},
    ),
    Base(15, {"batch_size": 5, "channels": 13, "height": 29, "width": 31}),
    Base(16, {"batch_size": 3, "steps": 57, "features": 731}),
    Base(17, {"batch_size": 7, "channels": 17, "height": 33, "width": 67}),
    Base(18, {"batch_size": 830, "classes": 167}),
    Base(19, {"batch_size": 138, "features": 803}),
    Base(20, {"batch_size": 238, "classes": 367}),
    Base(21, {"batch_size": 3, "channels": 15, "height": 53, "width": 67}),
    Base(22, {"batch_size": 2, "channels": 5, "depth": 17, "height": 23, "width": 37}),
    Base(23, {"batch_size": 3, "channels": 25, "length": 1143}),
    Base(24, {"batch_size": 137, "length": 803}),
    Base(25, {"batch_size": 137, "length": 803}),
    Base(26, {"batch_size": 337, "length": 261}),
    Base(27, {"batch_size": 1141, "features": 731}),
    Base(
        28,
        {"batch_size": 3, "channels": 21, "height": 37, "width": 53},
        long={"batch_size": 1, "channels": 2021, "height": 17, "width": 23},
    ),
    Base(1, {"batch_size": 157, "features": 1003}, _TURNED_ROWS, "_turned"),
    Base(27, {"batch_size": 1141, "features": 731}, _TURNED_ROWS, "_turned"),
    _meaning(31, rows=67, columns=131),
    _meaning(32, size=131),
    _meaning(33, batch_size=3, vectors=67, features=41),
    _meaning(37, batch_size=2, heads=3, steps=67, features=32),
    _meaning(38, batch_size=2, heads=3, steps=67, features=32),
    _meaning(39, batch_size=131, in_features=67, out_features=131),
    _meaning(40, batch_size=7, steps=33, in_features=67, out_features=35),
    _meaning(41, batch_size=3, in_channels=5, out_channels=13, height=17, width=19),
    _meaning(42, batch_size=3, in_channels=5, out_channels=24, height=17, width=19),
    _meaning(43, batch_size=3, in_channels=5, out_channels=13, height=17, width=19),
    _meaning(44, batch_size=131, in_features=67, out_features=128),
    _meaning(46, batch_size=131, features=67),
    _meaning(47, batch_size=131, in_features=67, out_features=35),
    _meaning(48, batch_size=3, rows=33, inner=17, columns=67),
    _meaning(49, batch_size=3, in_channels=5, out_channels=13, height=18, width=20),
    _meaning(50, batch_size=131, in_features=67, out_features=35),
    _meaning(51, batch_size=67, in_features=33, hidden=65, out_features=31),
    _meaning(54, batch_size=3, in_channels=5, out_channels=7, height=18, width=20),
)
