"""From a task to its backward task: the gradients of its module, searched like any other task."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.structure import Structure, UnstructuredError, take_apart
from kernelwright.core.task import Task, TolerancePolicy, Workload
from kernelwright.delivery.making import RANDOM, Delivery, ExampleCall, called, calls_of, deliver, original_of
from kernelwright.delivery.runtime.backward import BackwardModule, held_by
from kernelwright.delivery.runtime.contract import (
    Gradients,
    arguments_from,
    bound,
    original_class,
    signature_of,
)
from kernelwright.delivery.runtime.kernel import SEED, tensors_of
from kernelwright.delivery.runtime.module import attach
from kernelwright.referee.checkup.acceptance import expect, raw
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.randomness import kept_random_state

SUFFIX = "_backward"


@dataclass(frozen=True)
class BackwardTask:
    """The module that computes gradients, and the task made of it."""

    module: BackwardModule
    task: Task


@dataclass(frozen=True)
class _Example:
    """One call of the original, as a backward module takes it."""

    structures: dict[str, Structure]
    inputs: list[torch.Tensor]
    spread: str

    def call(self, module: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the module's results on inputs such as these."""
        positional, named = arguments_from(self.structures, self.spread, inputs)
        return tensors_of(module(*positional, **named))

    def gradients(
        self,
        module: nn.Module,
        wanted: Gradients,
        ends: Sequence[torch.Tensor],
        dtype: torch.dtype | None = None,
    ) -> list[torch.Tensor]:
        """Return a module's gradients by autograd, given those of its results; ``dtype``: computed in it."""
        inputs = [_cast(tensor, dtype).detach() for tensor in self.inputs]
        for i in wanted.inputs:
            inputs[i] = inputs[i].clone().requires_grad_()
        with torch.enable_grad():
            results = self.call(module, inputs)
        parameters = dict(module.named_parameters())
        asked = [*(inputs[i] for i in wanted.inputs), *(parameters[name] for name in wanted.parameters)]
        given = [_cast(end, dtype) for end in ends]
        return list(torch.autograd.grad([results[i] for i in wanted.results], asked, given))


@torch.inference_mode(False)
def backward_task(task: Task, original: nn.Module | None, folder: Path) -> BackwardTask:
    """Return the task of computing a task's gradients.

    Gradients of results are drawn by a normal distribution. Where example inputs say ``requires_grad``,
    theirs are computed, else those of all inputs of floating point.

    Args:
        task: whose module is differentiated.
        original: the live module; None: the reference of the task's file is constructed.
        folder: where the pickled module goes.

    Raises:
        CaptureError: the way back cannot be made a task; the message says why.
        TaskError: the original cannot be copied or pickled.
    """
    module, _ = original_of(task, original)
    calls = calls_of(task, original)
    examples = [_example(module, call) for call in calls]
    if any(example.structures != examples[0].structures for example in examples):
        raise CaptureError("its workloads call it with different arguments")
    _, changed, touched, _ = called(module, calls[0])
    written = sorted((changed | touched) - {RANDOM})
    if written:
        raise CaptureError(f"a call changes {', '.join(written[:3])}")
    try:
        with kept_random_state():
            torch.manual_seed(SEED)
            back, given = _differentiated(module, examples)
    except CaptureError:
        raise
    except Exception as error:  # whatever torch.autograd, a tracer or a user's own backward raises
        first_line = (str(error).strip() or repr(error)).splitlines()[0]
        raise CaptureError(f"autograd: {first_line}") from error
    made = _as_task(task, back, given, folder)
    capture_task(made, made.workloads[0])
    return BackwardTask(back, made)


def _example(module: nn.Module, call: ExampleCall) -> _Example:
    signature = signature_of(original_class(type(module)))
    spread = [p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
    try:
        arguments = bound(signature, call.args, call.kwargs)
        structures, tensors = take_apart(arguments, torch.is_tensor)
    except (UnstructuredError, TypeError) as error:
        raise CaptureError(f"its arguments hold {error}") from error
    named = dict(zip(structures.keys, structures.items, strict=True))  # type: ignore[union-attr]
    return _Example(named, tensors, spread[0] if spread else "")


def _differentiated(
    module: nn.Module, examples: list[_Example]
) -> tuple[BackwardModule, list[tuple[torch.Tensor, ...]]]:
    """Return the module that computes gradients, and for each example what it takes."""
    first = examples[0]
    gradients = _gradients(module, first)
    back = BackwardModule(module, first.structures, first.spread, gradients)
    given: list[tuple[torch.Tensor, ...]] = []
    graphs = []
    for example in examples:
        with torch.no_grad():
            results = example.call(copy.deepcopy(module), example.inputs)
        ends = [results[i] for i in gradients.results]
        draws = [torch.randn_like(end, memory_format=torch.contiguous_format) for end in ends]
        tensors = (*(tensor.detach() for tensor in example.inputs), *draws)
        given.append(tensors)
        graphs.append((tuple(tensor.shape for tensor in tensors), _traced(back, tensors)))
    back.graphs = tuple(graphs)
    return back, given


def _gradients(module: nn.Module, example: _Example) -> Gradients:
    """Return which gradients there are: those that autograd finds a way to."""
    is_told = any(tensor.requires_grad for tensor in example.inputs)
    wanted = [
        i
        for i, tensor in enumerate(example.inputs)
        if tensor.is_floating_point() and (tensor.requires_grad or not is_told)
    ]
    inputs = [t.detach().requires_grad_(i in wanted) for i, t in enumerate(example.inputs)]
    own = copy.deepcopy(module)
    names = [name for name, parameter in own.named_parameters() if parameter.requires_grad]
    with torch.enable_grad():
        results = example.call(own, inputs)
    ends = [i for i, result in enumerate(results) if result.requires_grad]
    if not ends:
        raise CaptureError("none of its results has a gradient")
    parameters = dict(own.named_parameters())
    asked = [*(inputs[i] for i in wanted), *(parameters[name] for name in names)]
    reached = [_reached(results[i], asked) for i in ends]
    there = sorted(set[int]().union(*reached))
    return Gradients(
        tuple(wanted[place] for place in there if place < len(wanted)),
        tuple(names[place - len(wanted)] for place in there if place >= len(wanted)),
        tuple(ends),
        tuple(tuple(there.index(place) for place in places) for places in reached),
    )


def _reached(result: torch.Tensor, asked: Sequence[torch.Tensor]) -> list[int]:
    """Return the positions of the tensors that autograd finds a way to from a result."""
    drawn = torch.ones_like(result)
    found = torch.autograd.grad(result, asked, drawn, retain_graph=True, allow_unused=True)
    return [place for place, gradient in enumerate(found) if gradient is not None]


def _traced(back: BackwardModule, tensors: Sequence[torch.Tensor]) -> fx.GraphModule:
    """Return forward and backward as one graph of operators, of the tensors of a call and the weights."""
    held = held_by(back)

    def compute(*everything: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights = dict(zip(held, everything[len(tensors) :], strict=True))
        return torch.func.functional_call(back, weights, everything[: len(tensors)])  # type: ignore[no-any-return]

    with torch.no_grad():
        traced: fx.GraphModule = make_fx(compute)(*tensors, *(weight.detach() for weight in held.values()))
    for node in list(traced.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
        elif torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise CaptureError(f"its forward draws random numbers ({node.target})")
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced


def _as_task(task: Task, back: BackwardModule, given: list[tuple[torch.Tensor, ...]], folder: Path) -> Task:
    """Make the task; a scalar gradient, which is drawn once, gets another value in an untimed workload."""
    n_given = len(back.gradients.results)
    is_timed = [workload.is_timed for workload in task.workloads]
    if any(tensor.numel() < 2 for tensor in given[0][-n_given:]):
        first = given[0]
        other = tuple(t * -math.pi if i >= len(first) - n_given else t for i, t in enumerate(first))
        given, is_timed = [*given, other], [*is_timed, False]
    made = task_from_module(
        back,
        given,
        name=f"{task.name}{SUFFIX}",
        folder=folder,
        mode=task.mode,
        tolerance=task.tolerance,
    )
    pairs = zip(made.workloads, is_timed, strict=True)
    workloads: tuple[Workload, ...] = tuple(w.model_copy(update={"is_timed": timed}) for w, timed in pairs)
    return made.model_copy(update={"workloads": workloads})


@torch.inference_mode(False)
def deliver_with_backward(
    winner: Candidate, task: Task, original: nn.Module | None, backward: BackwardTask, kernel: Candidate
) -> Delivery:
    """Return the drop-in whose gradients a backward kernel computes.

    Args:
        winner: the verified candidate.
        task: what it was verified on.
        original: the live module; None: the reference of the task's file is constructed.
        backward: the task's backward task.
        kernel: the verified candidate of that one.

    Raises:
        TaskError: as ``deliver``, or a gradient of the drop-in is wrong.
    """
    made = deliver(winner, task, original, backward=deliver(kernel, backward.task, backward.module))
    module, _ = original_of(task, original)
    try:
        with kept_random_state():
            torch.manual_seed(SEED)
            for call in calls_of(task, original):
                wrong = _wrong_gradient(made, module, _example(module, call))
                if wrong is not None:
                    raise TaskError(f"{task.name}: {wrong}")
    except TaskError:
        raise
    except Exception as error:  # whatever an original raises that does not run in float64
        raise TaskError(f"{task.name}: gradients cannot be compared with float64 ({error})") from error
    attach(made.kernel, made.module)  # its report begins anew
    return made


def _wrong_gradient(made: Delivery, original: nn.Module, example: _Example) -> str | None:
    """Compare a delivered module's gradients with the original's in float64; return what is wrong.

    The module itself is called, as a user calls it, and the original in its own precision says how far
    honest arithmetic may be.
    """
    gradients = made.kernel.contract.gradients
    assert gradients is not None
    with torch.no_grad():
        results = example.call(copy.deepcopy(original), example.inputs)
    ends = [torch.randn_like(results[i]) for i in gradients.results]
    n_before = made.kernel.backward_calls
    ours = example.gradients(made.module, gradients, ends)
    if made.kernel.backward_calls == n_before:
        return "its kernel was not asked for gradients"
    theirs = example.gradients(original, gradients, ends)
    truth = example.gradients(copy.deepcopy(original).double(), gradients, ends, torch.float64)
    n_elements = sum(tensor.numel() for tensor in example.inputs)
    names = [*(f"input {i}" for i in gradients.inputs), *gradients.parameters]
    for name, one, other, true in zip(names, ours, theirs, truth, strict=True):
        distance = _distance(one, other, true, made.task.tolerance, n_elements)
        if distance is not None:
            return f"the gradient of {name} {distance}"
    return None


def _cast(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _distance(
    ours: torch.Tensor, theirs: torch.Tensor, truth: torch.Tensor, policy: TolerancePolicy, n_elements: int
) -> str | None:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"is {ours.dtype} of shape {tuple(ours.shape)}"
    per_output = max(n_elements / max(theirs.numel(), 1), 1.0)
    judged = expect(theirs, truth, policy, per_output).judge(raw(ours))
    return None if judged.is_close else f"is off by {judged.error:.2g}, {judged.allowed:.2g} is allowed"
