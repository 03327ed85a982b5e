"""Runs a model in this process: how long each submodule takes, what it is called with, what kind it is."""

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

import torch
from torch import nn

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.structure import UnstructuredError, put_together, take_apart, to_data
from kernelwright.delivery.making import ExampleCall
from kernelwright.delivery.runtime.contract import TensorFacts, constants_of
from kernelwright.delivery.runtime.described import digest_of
from kernelwright.tasks.likeness import likeness
from kernelwright.whole.blocks import Submodule
from kernelwright.whole.computing import graph_of
from kernelwright.whole.deciding import is_plain_layer

ROUNDS = 5
"""Calls that are timed; the median counts. One more comes first and is not."""


Times: TypeAlias = tuple[float, dict[str, float]]
"""Milliseconds of a call of the whole, and in each submodule."""


@dataclass(frozen=True)
class TimeProfile:
    """Where a model's time goes, by submodule."""

    total_ms: float
    """Of one call on every workload."""
    parts: tuple[Submodule, ...]

    def ms_of(self, paths: Sequence[str]) -> float:
        """Return the time in some submodules."""
        by_path = {part.path: part.ms for part in self.parts}
        return sum(by_path[path] for path in paths)


@dataclass
class _Seen:
    """What was seen of one submodule while the model was called."""

    calls: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Workload -> the forms of its calls."""
    problem: str = ""

    @property
    def forms(self) -> list[list[str]]:
        """The forms of its calls, by workload."""
        return [sorted(self.calls[number]) for number in sorted(self.calls)]


def profile(
    model: nn.Module, calls: Sequence[ExampleCall], *, only: Collection[str] | None = None
) -> TimeProfile:
    """Return how long each submodule takes, without gradients; a module under two names has the first.

    ``only`` names the submodules to look at; None: all. A kernel does not run where its block has hooks
    inside, so of a patched model only the blocks themselves are looked at.

    Raises:
        TaskError: the model does not run on its example.
    """
    names = {
        id(part): path for path, part in model.named_modules() if path and (only is None or path in only)
    }
    seen = _look(model, calls, names)
    rounds = [_time(model, calls, names) for _ in range(ROUNDS + 1)][1:]
    why = {path: _why_no_block(model.get_submodule(path), seen[path], len(calls)) for path in names.values()}
    kinds = _kinds(model, calls, {path: seen[path] for path in names.values() if not why[path]})
    parts = [
        Submodule(
            path=path,
            kind=kinds.get(path, ""),
            ms=median(times.get(path, 0.0) for _, times in rounds),
            is_plain=is_plain_layer(model.get_submodule(path)),
            why_not=why[path],
        )
        for path in names.values()
    ]
    return TimeProfile(median(total for total, _ in rounds), tuple(parts))


def examples(model: nn.Module, calls: Sequence[ExampleCall], path: str) -> list[ExampleCall]:
    """Return what a submodule is called with, for each workload the first time."""
    found: list[ExampleCall] = []
    for call in calls:
        kept: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def keep(part: nn.Module, args: Any, kwargs: Any, kept: Any = kept) -> None:
            if not kept:
                kept.append(_copied((args, kwargs)))

        handle = model.get_submodule(path).register_forward_pre_hook(keep, with_kwargs=True)
        try:
            call_once(model, call)
        finally:
            handle.remove()
        args, kwargs = kept[0]
        found.append(ExampleCall(call.workload, tuple(args), kwargs))
    return found


def call_once(model: nn.Module, call: ExampleCall) -> None:
    """Call a model on an example without gradients; raises TaskError where it cannot be called so."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model(*call.args, **call.kwargs)
    except Exception as error:  # whatever a user's forward raises
        raise TaskError(f"{type(model).__name__} raised {error!r} on its example") from error


def _look(model: nn.Module, calls: Sequence[ExampleCall], names: dict[int, str]) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = defaultdict(_Seen)
    versions: dict[str, list[object]] = {}
    number = 0

    def before(part: nn.Module, args: Any, kwargs: Any) -> None:
        path = names[id(part)]
        versions[path] = _versions(part)
        try:
            structure, tensors = take_apart((args, kwargs), torch.is_tensor)
            form = repr((to_data(structure), [TensorFacts.of(tensor) for tensor in tensors]))
            seen[path].calls[number].add(form)
        except UnstructuredError as error:
            seen[path].problem = f"it is called with {error}"
        if any(tensor.is_sparse for tensor in part.parameters()):
            seen[path].problem = "it holds sparse weights"

    def after(part: nn.Module, args: Any, result: Any) -> None:
        path = names[id(part)]
        try:
            take_apart(result, torch.is_tensor)
        except UnstructuredError as error:
            seen[path].problem = f"it returns {error}"
        if _versions(part) != versions[path]:
            seen[path].problem = "a call changes what it holds"

    with _hooked(model, names, before, after):
        for number, call in enumerate(calls):  # noqa: B007  # `before` reads it
            call_once(model, call)
    return seen


def _versions(part: nn.Module) -> list[object]:
    """Return what tells that a call wrote to a module's tensors; batch norm does not count its writes."""
    buffers = [(name, digest_of(tensor)) for name, tensor in part.named_buffers()]
    return [*buffers, *((name, tensor._version) for name, tensor in part.named_parameters())]


def _why_no_block(part: nn.Module, seen: _Seen, n_workloads: int) -> str:
    if seen.problem:
        return seen.problem
    if len(seen.calls) != n_workloads:
        return "it is not called"
    if any(len(forms) > 1 for forms in seen.calls.values()):
        return "it is called in several ways"
    return ""


def _kinds(model: nn.Module, calls: Sequence[ExampleCall], seen: Mapping[str, _Seen]) -> dict[str, str]:
    """Return what submodules share that one kernel may serve, by path.

    Attributes alone do not make two kinds: where they differ between submodules of one form, what both
    compute is captured and compared. Outer submodules come first: what lies in a repeated one is no block.
    """
    kinds = {path: _by_attributes(model.get_submodule(path), one) for path, one in seen.items()}
    forms: dict[str, list[str]] = defaultdict(list)
    for path, one in seen.items():
        part = model.get_submodule(path)
        if part._modules or not is_plain_layer(part):
            forms[_form(part, one)].append(path)
    settled: set[str] = set()
    for paths in sorted(forms.values(), key=lambda paths: min(path.count(".") for path in paths)):
        open_paths = [path for path in paths if not any(path.startswith(f"{outer}.") for outer in settled)]
        if len({kinds[path] for path in open_paths}) > 1:
            kinds |= _by_graph(model, calls, {path: seen[path] for path in open_paths}, kinds)
        counted = Counter(kinds[path] for path in open_paths)
        settled |= {path for path in open_paths if counted[kinds[path]] > 1}
    return kinds


def _form(part: nn.Module, seen: _Seen) -> str:
    """Return what submodules of one kind share at least: classes, weights and calls."""
    weights = [(name, TensorFacts.of(tensor)) for name, tensor in part.state_dict(keep_vars=True).items()]
    return repr(
        ([(kind.__module__, kind.__qualname__) for kind in map(type, part.modules())], weights, seen.forms)
    )


def _by_attributes(part: nn.Module, seen: _Seen) -> str:
    return _named(part, likeness(part, ()) or str(id(part)), seen)


def _by_graph(
    model: nn.Module, calls: Sequence[ExampleCall], seen: Mapping[str, _Seen], kinds: Mapping[str, str]
) -> dict[str, str]:
    """Return the kinds of submodules by what they compute; one that cannot be captured keeps its own."""
    known: dict[str, str] = {}
    for path in seen:
        if kinds[path] not in known:
            part = model.get_submodule(path)
            try:
                graphs = [graph_of(part, call) for call in examples(model, calls, path)]
            except CaptureError:
                known[kinds[path]] = kinds[path]
            else:
                known[kinds[path]] = _named(part, repr(graphs), seen[path])
    return {path: known[kinds[path]] for path in seen}


def _named(part: nn.Module, what: str, seen: _Seen) -> str:
    constants = [(path, digest_of(tensor)) for path, _, _, tensor in constants_of(part)]
    text = repr((what, seen.forms, constants))
    return f"{type(part).__qualname__}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _time(model: nn.Module, calls: Sequence[ExampleCall], names: dict[int, str]) -> Times:
    times: dict[str, float] = defaultdict(float)
    begun: dict[str, list[float]] = defaultdict(list)

    def before(part: nn.Module, args: Any, kwargs: Any) -> None:
        begun[names[id(part)]].append(time.perf_counter())

    def after(part: nn.Module, args: Any, result: Any) -> None:
        path = names[id(part)]
        times[path] += 1e3 * (time.perf_counter() - begun[path].pop())

    with _hooked(model, names, before, after):
        start = time.perf_counter()
        for call in calls:
            call_once(model, call)
        return 1e3 * (time.perf_counter() - start), dict(times)


@contextmanager
def _hooked(
    model: nn.Module, names: dict[int, str], before: Callable[..., None], after: Callable[..., None]
) -> Iterator[None]:
    handles = []
    for path in names.values():
        part = model.get_submodule(path)
        handles.append(part.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(part.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _copied(value: Any) -> Any:
    """Return a call with tensors of its own, laid out as they were."""
    structure, tensors = take_apart(value, torch.is_tensor)
    return put_together(structure, [_like(tensor) for tensor in tensors])


def _like(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor.detach())
