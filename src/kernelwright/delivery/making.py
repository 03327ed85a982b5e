"""Makes what is delivered: the contract of a verified kernel, and the module that keeps it."""

import copy
import inspect
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, TaskError
from kernelwright.core.structure import (
    TensorAt,
    UnstructuredError,
    put_together,
    take_apart,
    take_apart_and_back,
    tensors_in,
)
from kernelwright.core.task import Mode, Task
from kernelwright.delivery.compared import require_same_function
from kernelwright.delivery.runtime.aliases import RESULT, Alias, aliases_of, without_views
from kernelwright.delivery.runtime.classes import globals_written
from kernelwright.delivery.runtime.contract import (
    Case,
    Contract,
    Gradients,
    Span,
    TensorFacts,
    attributes_of,
    bound,
    constants_of,
    defaults_of,
    describe_constants,
    describe_parts,
    describe_weights,
    names_of,
    original_class,
    parts_of,
    signature_of,
    weights_of,
)
from kernelwright.delivery.runtime.described import code_of, description_of, digest_of, forget_classes
from kernelwright.delivery.runtime.explain import held_tensors
from kernelwright.delivery.runtime.kernel import (
    SEED,
    VerifiedKernel,
    constructed,
    init_of,
    load_origin,
    tensors_of,
)
from kernelwright.delivery.runtime.module import attach
from kernelwright.delivery.unchanged import own_copy, require_as_verified
from kernelwright.ir.extents import Extent, Family
from kernelwright.ir.lower.family import dims_of
from kernelwright.tasks.dynamic import example_workloads, require_one_structure
from kernelwright.tasks.namespace import bind_source, draw_inputs, load_namespace
from kernelwright.tasks.randomness import kept_random_state

RANDOM = "the state of random generators"


@dataclass(frozen=True)
class ExampleCall:
    """One example call of the original, as the user writes it."""

    workload: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Delivery:
    """A winner, ready to be used and to be saved."""

    kernel: VerifiedKernel
    module: nn.Module
    candidate: Candidate
    task: Task
    backward: "Delivery | None" = None
    """Of its backward task; None: the original computes gradients."""


@torch.inference_mode(False)
def deliver(
    winner: Candidate,
    task: Task,
    original: nn.Module | None = None,
    *,
    is_frozen: bool = False,
    backward: Delivery | None = None,
) -> Delivery:
    """Return the drop-in for a task's original.

    The module owns its parameters: they are copies of the original's.

    Args:
        winner: the verified candidate.
        task: what it was verified on.
        original: the live module; None: the reference of the task's file is constructed.
        is_frozen: the kernel may prepare its weights once.
        backward: what computes the gradients.

    Raises:
        OtherFunctionError: on an example the kernel returns something else.
        TaskError: the original is not as it was verified or cannot be copied, or its calls hold what no
            contract can name.
    """
    forget_classes()
    module, origin = original_of(task, original)
    calls = calls_of(task, original)
    if original is not None:
        _require_as_verified(task, module, calls)
    init = () if origin is None else init_of(origin)
    contract = make_contract(
        winner, module, calls, title=task.name, init=init, is_flat=original is not None, is_frozen=is_frozen
    )
    kernel = VerifiedKernel(winner.program, contract, origin=origin)
    contract = with_outputs(kernel, module, calls)
    if task.dynamic:
        contract = over_ranges(contract, task, module)
    back = None
    if backward is not None:
        known = backward.module.gradients
        assert isinstance(known, Gradients)
        back, contract = backward.kernel, replace(contract, gradients=known)
    kernel = VerifiedKernel(winner.program, contract, origin=origin, backward=back)
    attach(kernel, module)
    require_same_function(module, [(call.args, call.kwargs) for call in calls], task.name)
    return Delivery(kernel, module, winner, task, backward)


def original_of(task: Task, original: nn.Module | None) -> tuple[nn.Module, str | None]:
    """Return a task's original in the task's mode, one that nobody else has, and the source of a file's.

    Raises:
        TaskError: a live module cannot be copied, or a file's cannot be constructed.
    """
    if original is not None:
        return own_copy(task, original), None
    origin = bind_source(task, task.workloads[0])
    return _constructed(task, origin), origin


def _constructed(task: Task, source: str) -> nn.Module:
    """Return the reference of a file; its classes are found under a name that every process gives them."""
    try:
        model = constructed(load_origin(source).Model, init_of(source), SEED)
    except Exception as error:  # the user's constructor
        raise TaskError(f"{task.path or task.name}: Model(...) raised {error!r}") from error
    return model.eval() if task.mode is Mode.EVAL else model


def calls_of(task: Task, original: nn.Module | None) -> list[ExampleCall]:
    """Return an example call for each workload, or for several extents of one."""
    calls = []
    several = [workload for _, workload in example_workloads(task)] if task.dynamic else task.workloads
    for workload in several:
        with kept_random_state():
            namespace = load_namespace(task, workload)
            if original is not None and task.dynamic:
                args, kwargs = put_together(namespace.structure, draw_inputs(task, namespace, SEED))
            elif original is not None and hasattr(namespace, "example_call"):
                args, kwargs = namespace.example_call()
            else:
                args, kwargs = draw_inputs(task, namespace, SEED), {}
        calls.append(ExampleCall(workload.name, tuple(args), kwargs))
    return calls


def _require_as_verified(task: Task, module: nn.Module, calls: Sequence[ExampleCall]) -> None:
    try:
        require_as_verified(task, module)
    except TaskError:
        if not _changes_itself(module, calls):
            raise


def _changes_itself(module: nn.Module, calls: Sequence[ExampleCall]) -> bool:
    """Say whether a call changes attributes, or draws random numbers: no kernel runs then."""
    try:
        return any(called(module, _apart(call, ""))[2] for call in calls)
    except Exception:  # whatever forward raises in a module that is not as it was
        return False


def make_contract(
    winner: Candidate,
    module: nn.Module,
    calls: list[ExampleCall],
    *,
    title: str,
    init: tuple[Any, ...] = (),
    is_flat: bool = True,
    is_frozen: bool = False,
    seed: int = SEED,
) -> Contract:
    """Return what must hold for a kernel to run in a module's place.

    Raises:
        TaskError: a call or a result holds what no contract can name.
    """
    signature = signature_of(original_class(type(module)))
    cases, written, effects = [], set[str](), set[str]()
    for call in calls:
        call = _apart(call, title)
        try:
            arguments = bound(signature, call.args, call.kwargs)
            structure, tensors = take_apart_and_back(arguments, _is_tensor)
            result, changed, touched, held = called(module, call)
            shape, results = take_apart_and_back(result, _is_tensor)
        except UnstructuredError as error:
            raise TaskError(
                f"{title}: forward takes or returns {error}; tensors, numbers, texts, None, and tuples, "
                "lists, dicts and dataclasses of them can be delivered"
            ) from error
        except TypeError as error:
            raise TaskError(f"{title}: {error}") from error
        written |= changed
        effects |= touched
        names = dict(zip(structure.keys, structure.items, strict=True))  # type: ignore[union-attr]
        inputs = tuple(map(TensorFacts.of, tensors))
        aliases = aliases_of(results, tensors, held)
        outputs = tuple(map(TensorFacts.of, results))
        defaults = defaults_of(signature, names)
        cases.append(Case(call.workload, names, inputs, outputs, shape, aliases=aliases, defaults=defaults))
    is_plain = all(isinstance(value, TensorAt) for case in cases for value in case.arguments.values())
    spread = [p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_POSITIONAL]
    return Contract(
        title=title,
        kernel=winner.id,
        cases=tuple(cases),
        parts=describe_parts(module),
        weights=describe_weights(module, frozenset(written)),
        constants=describe_constants(module),
        default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
        is_flat=is_flat or is_plain,
        spread=spread[0] if spread else "",
        is_frozen=is_frozen,
        effects=tuple(sorted(effects)),
        seed=seed,
        init=init,
    )


def with_outputs(kernel: VerifiedKernel, module: nn.Module, calls: list[ExampleCall]) -> Contract:
    """Return the kernel's contract with what the kernel itself returns: it is called once on each example."""
    contract = kernel.contract
    held = weights_of(copy.deepcopy(module))
    cases = []
    for case, call in zip(contract.cases, calls, strict=True):
        tensors = take_apart(bound(signature_of(type(module)), call.args, call.kwargs), _is_tensor)[1]
        instance = kernel.make()
        instance.take([held[name] for name in contract.weights])
        with torch.no_grad():
            out = tensors_of(instance.call(*kernel.arguments(case, tensors)))
        if len(out) != tensors_in(case.result):
            raise TaskError(f"{contract.title}: the kernel returns {len(out)} tensors, not {case.result}")
        put_together(case.result, out)
        outputs = tuple(map(TensorFacts.of, out))
        cases.append(replace(case, outputs=outputs, aliases=_kept_aliases(case, outputs)))
    return replace(contract, cases=tuple(cases))


def _kept_aliases(case: Case, outputs: tuple[TensorFacts, ...]) -> tuple[Alias | None, ...]:
    """Return the aliases but those of results that lie in memory in another way than the original's."""
    return tuple(
        alias
        if alias is None or alias.of != RESULT or outputs[int(alias.place)] == case.outputs[int(alias.place)]
        else None
        for alias in case.aliases
    )


def over_ranges(contract: Contract, task: Task, module: nn.Module) -> Contract:
    """Return the contract of a dynamic task: one case for its ranges, from those at several extents.

    Raises:
        TaskError: a size of an input or a result is no plain expression of the extents, or a result is one.
    """
    require_one_structure(task, {repr(case.result) for case in contract.cases})
    points = [point for point, _ in example_workloads(task)]
    plain = [i for i, point in enumerate(points) if min(point) > 1]  # strides of single elements mean nothing
    family = Family(dims_of(task.dynamic), [points[i] for i in plain])
    try:
        case = family.unified([replace(contract.cases[i], name="dynamic", aliases=()) for i in plain])
    except LoweringError as error:
        raise TaskError(f"{task.name}: one contract does not serve the whole range: {error}") from error
    places = _places(task, module)
    spans = tuple(
        Span(dim.variable, dim.low, dim.high, places[int(axis.axes[0][0])], axis.axes[0][1])
        for axis, dim in zip(task.dynamic, family.dims, strict=True)
    )
    inputs, outputs = (tuple(map(_in_words, facts)) for facts in (case.inputs, case.outputs))
    aliases = without_views(contract.cases[plain[0]].aliases)
    made = replace(case, inputs=inputs, outputs=outputs, spans=spans, aliases=aliases)
    return replace(contract, cases=(made,))


def _places(task: Task, module: nn.Module) -> dict[int, int]:
    """Return where the inputs of a task stand among the tensors of a call, by position."""
    with kept_random_state():
        namespace = load_namespace(task, task.workloads[0])
        drawn = draw_inputs(task, namespace, SEED)
    is_live = task.artifact is not None
    args, kwargs = put_together(namespace.structure, drawn) if is_live else (drawn, {})
    given = bound(signature_of(original_class(type(module))), tuple(args), kwargs)
    ids = [id(tensor) for tensor in take_apart(given, _is_tensor)[1]]
    return {position: ids.index(id(value)) for position, value in enumerate(drawn) if id(value) in ids}


def _in_words(facts: TensorFacts) -> TensorFacts:
    """Return facts with extents as text."""
    shape, stride = (
        tuple(str(size) if isinstance(size, Extent) else size for size in part)
        for part in (facts.shape, facts.stride)
    )
    return replace(facts, shape=shape, stride=stride)


def called(module: nn.Module, call: ExampleCall) -> tuple[Any, set[str], set[str], dict[str, torch.Tensor]]:
    """Return what a copy of the module answers, which saved tensors a call changes, what else, and what it
    holds. What a call writes into its arguments is written into those of the example.

    Only ``forward`` is called: hooks of the module and a ``__call__`` of its own stay with what is delivered.
    """
    apart = copy.deepcopy(module)
    before, touchable = weights_of(apart), _unsaved(apart)
    states: dict[str, object] = {name: _state_of(tensor) for name, tensor in before.items()}
    given, outside = _arguments_of(module, call), _outside(module)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        drawn_before = _random_state()
        result = apart.forward(*call.args, **call.kwargs)
        has_drawn = _random_state() != drawn_before
    after, touched = weights_of(apart), _unsaved(apart)
    changed = {name for name, held in after.items() if _state_of(held) != states.get(name)}
    names = touched.keys() | touchable.keys()
    effects = {name for name in names if touched.get(name) != touchable.get(name)}
    effects |= {name for name in before.keys() | after.keys() if after.get(name) is not before.get(name)}
    effects |= {RANDOM} if has_drawn else set()
    effects |= {name for name, value in _arguments_of(module, call).items() if value != given[name]}
    if (now := _outside(module)) != outside:  # in every call, or was it a cache that the first one fills?
        again, args, kwargs = copy.deepcopy((module, call.args, call.kwargs))
        with torch.no_grad(), kept_random_state():
            again.forward(*args, **kwargs)
        effects |= {name for name, text in _outside(module).items() if text != now.get(name)}
    return result, changed, effects, held_tensors(apart)


def _outside(module: nn.Module) -> dict[str, str]:
    """Return descriptions of what the code of a module's classes reads and assigns outside of the module."""
    forget_classes()
    found: dict[str, str] = {}
    for kind in {original_class(type(part)) for part in module.modules()}:
        found[f"what {kind.__qualname__} reads outside of it"] = code_of(kind)
        found |= {f"global {name}": description_of(value) for name, value in globals_written(kind).items()}
    return found


def _apart(call: ExampleCall, title: str) -> ExampleCall:
    """Return the same call with arguments of its own; raises TaskError where they cannot be copied."""
    try:
        args, kwargs = copy.deepcopy((call.args, call.kwargs))
    except Exception as error:  # whatever a user's __deepcopy__ raises
        raise TaskError(f"{title}: the example inputs cannot be copied ({error!r})") from error
    return ExampleCall(call.workload, args, kwargs)


def _arguments_of(module: nn.Module, call: ExampleCall) -> dict[str, object]:
    """Return what tells that arguments were written to."""
    found: dict[str, object] = {}
    for name, value in bound(signature_of(original_class(type(module))), call.args, call.kwargs).items():
        structure, tensors = take_apart(value, _is_tensor)
        found[f"argument {name}"] = repr(structure), [(id(t), _state_of(t.resolve_conj())) for t in tensors]
    return found


def _random_state() -> object:
    """Return what tells that random numbers were drawn, which no kernel does."""
    return bytes(torch.get_rng_state().numpy()), random.getstate()


def _unsaved(module: nn.Module) -> dict[str, str]:
    """Return descriptions of everything that a module holds besides its saved tensors."""
    found = {path: digest_of(tensor) for path, _, _, tensor in constants_of(module)}
    names = names_of(module)
    for path, part in parts_of(module):
        for name, value in attributes_of(part).items():
            found[f"{path}.{name}".lstrip(".")] = description_of(value, names)
    return found


def _state_of(tensor: torch.Tensor) -> object:
    """Return what tells that a tensor was written to; batch norm writes its buffers without counting it."""
    is_parameter = isinstance(tensor, nn.Parameter)
    return tensor._version if is_parameter else (tensor._version, digest_of(tensor))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
