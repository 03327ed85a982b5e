"""Notes every kernel that a candidate launches, and builds it instead of running it."""

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.inspection import KernelOutcome, KernelReport
from kernelwright.targets.gpu.inspect.machine_code import BuiltCode, examine, first_line, grid_problem, waves

Tell = Callable[[dict[str, Any]], None]
"""Hands one message to the parent."""


class Recorder:
    """Takes the place of Triton's launch; use from one thread.

    Every report is told at once, so that what was seen survives the candidate's end, and told again when a
    later launch changes it.
    """

    def __init__(self, gpu: GpuFacts, tell: Tell) -> None:
        self._gpu, self._tell = gpu, tell
        self._reports: dict[str, KernelReport] = {}
        self._built: dict[str, BuiltCode] = {}
        self._log: list[str] = []
        self._n_trials = 0
        self._has_trial_failed = False

    def install(self) -> None:
        """Put this in front of Triton's compiler; Triton must have been imported for compiling."""
        # lazy: only the child has them loaded
        import triton.backends.nvidia.compiler as nvidia
        from triton import knobs
        from triton.runtime.jit import JITFunction

        knobs.nvidia.dump_ptxas_log = True
        nvidia.print = lambda *words: self._log.append("".join(map(str, words)))
        self._tools = knobs.nvidia
        original = JITFunction.run

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return self._launch(original, function, args, kwargs, None if warmup else grid)

        JITFunction.run = run

    @contextlib.contextmanager
    def trial(self) -> Iterator[Callable[[], bool]]:
        """Mark what is launched inside as an autotuner's trial; what it gives says whether one failed."""
        self._n_trials += 1
        self._has_trial_failed = False
        try:
            yield lambda: self._has_trial_failed
        finally:
            self._n_trials -= 1

    def _launch(
        self, original: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any
    ) -> Any:
        name = function.fn.__name__
        self._tell({"begun": name})
        self._log.clear()
        bound = _bound(function, args, kwargs)
        try:
            kernel = original(function, *args, grid=None, warmup=True, **kwargs)
        except Exception as error:  # whatever Triton, LLVM or ptxas say
            self._note(_failed(name, function, kwargs, bound, error), "", grid is not None)
            return None
        if kernel.hash not in self._built:
            self._built[kernel.hash] = examine(kernel, self._gpu, "\n".join(self._log), self._tools)
        report = self._report(kernel, function, bound, self._built[kernel.hash])
        if grid is not None:
            report = self._with_grid(report, tuple(int(n) for n in (grid(bound) if callable(grid) else grid)))
        self._note(report, kernel.hash, grid is not None)
        return kernel

    def _report(self, kernel: Any, function: Any, bound: dict[str, Any], built: BuiltCode) -> KernelReport:
        source = kernel.src
        names = list(source.signature)
        types = {name: kind for name, kind in source.signature.items() if kind != "constexpr"}
        aligned = {
            names[path[0]] for path, marks in source.attrs.items() if len(path) == 1 and _is_even(marks)
        }
        return KernelReport(
            kernel=function.fn.__name__,
            outcome=built.outcome,
            detail=built.detail,
            constants={n: _text(bound.get(n)) for n, kind in source.signature.items() if kind == "constexpr"},
            num_warps=kernel.metadata.num_warps,
            num_stages=getattr(kernel.metadata, "num_stages", None),
            arguments={name: str(kind) for name, kind in types.items()},
            unaligned=tuple(n for n, kind in types.items() if str(kind).startswith("*") and n not in aligned),
            argument_bytes=_bytes(bound.values()),
            facts=built.facts,
        )

    def _with_grid(self, report: KernelReport, grid: tuple[int, ...]) -> KernelReport:
        facts = {**report.facts, "gpu.waves": waves(grid, report.facts)} if report.facts else {}
        problem = grid_problem(grid, self._gpu.limits)
        changes: dict[str, Any] = {"grid": grid, "facts": facts}
        if problem and report.outcome.can_run:
            changes |= {"outcome": KernelOutcome.CANNOT_LAUNCH, "detail": problem}
        return report.model_copy(update=changes)

    def _note(self, report: KernelReport, build: str, is_launched: bool) -> None:
        is_trial = self._n_trials > 0
        if is_trial and not report.outcome.can_run:
            self._has_trial_failed = True
        named = report.model_dump_json(include={"kernel", "constants", "num_warps", "outcome"})
        key = hashlib.sha256((build + named).encode()).hexdigest()[:16]
        old = self._reports.get(key)
        n_new = int(is_launched and not is_trial)
        if old is None:
            report = report.model_copy(update={"launches": n_new, "is_trial": is_trial})
        else:
            largest = max(old, report, key=lambda r: (r.argument_bytes or 0, r.grid or ()))
            report = largest.model_copy(
                update={"launches": (old.launches or 0) + n_new, "is_trial": old.is_trial and is_trial}
            )
        self._reports[key] = report
        self._tell({"key": key, "report": report.model_dump(mode="json")})


def _bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, as Triton gives them to a grid; empty when they do not fit."""
    signature = inspect.signature(function.fn)
    own = {name: value for name, value in kwargs.items() if name in signature.parameters}
    try:
        bound = signature.bind_partial(*args, **own)
    except TypeError:
        return {}
    bound.apply_defaults()
    return dict(bound.arguments)


def _is_even(marks: Any) -> bool:
    """Tell whether Triton takes a pointer for a multiple of 16 bytes."""
    return any(mark[0] == "tt.divisibility" for mark in marks)


def _failed(
    name: str, function: Any, kwargs: dict[str, Any], bound: dict[str, Any], error: Exception
) -> KernelReport:
    constants = {p.name: _text(bound.get(p.name)) for p in function.params if p.is_constexpr}
    warps, stages = kwargs.get("num_warps"), kwargs.get("num_stages")
    return KernelReport(
        kernel=name,
        outcome=KernelOutcome.NOT_BUILT,
        detail=f"{type(error).__name__}: {first_line(str(error))}",
        constants=constants,
        num_warps=warps if isinstance(warps, int) else None,
        num_stages=stages if isinstance(stages, int) else None,
    )


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))[:100]


def _bytes(values: Any) -> int:
    """Return the size of all tensors among some values, each storage once."""
    sizes: dict[int, int] = {}
    for value in values:
        if hasattr(value, "untyped_storage"):
            size = min(value.numel() * value.element_size(), value.untyped_storage().nbytes())
            sizes[id(value)] = size
    return sum(sizes.values())
