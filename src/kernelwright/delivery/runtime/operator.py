"""The kernel as a ``torch.library`` custom operator: what compilers, exporters and tracers see of it.

It takes the tensors of a call and the module's weights, one after the other. Where the kernel changes weights
(the running statistics of a batch norm), the operator's schema says so.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from .backward import BackwardModule, forward_on
from .contract import Case, TensorFacts, arguments_from, original_class, same_strides, weights_of
from .guards import version_of
from .kernel import KernelInstance, VerifiedKernel, tensors_of
from .writes import watch

NAMESPACE = "kernelwright"
MAX_ARGUMENTS = 64
"""That PyTorch accepts in an operator's schema; more tensors are passed as lists."""
DEFINED = "kernelwright_operators"
"""Where the namespace of a kernel keeps its operators, by number."""
_defining = threading.RLock()


def _facts(weights: Sequence[torch.Tensor]) -> Iterator[float]:
    for weight in weights:
        yield from (weight.untyped_storage()._cdata, weight.data_ptr(), version_of(weight))


class SameWeights:
    """Tells whether weights are those of before, in the same memory and not written to; keeps none alive."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        storages = [weight.untyped_storage() for weight in weights]
        self._memory = [StorageWeakRef(storage) for storage in storages]  # type: ignore[no-untyped-call]
        """While it is referred to, no other memory has its number."""
        self._known = list(_facts(weights))

    def are(self, weights: Sequence[torch.Tensor]) -> bool:
        """Say whether these are the same."""
        return all(a == b for a, b in zip(_facts(weights), self._known, strict=True))  # not by identity: NaN


class KernelOperator:
    """One kernel's operator. Defined once in a process, whoever loads the kernel first.

    Args:
        kernel: what it runs.
        original: computes its gradients.
        number: among the kernel's operators: each has its own plain arguments.
    """

    def __init__(self, kernel: VerifiedKernel, original: nn.Module, number: int) -> None:
        self.kernel = kernel
        self.contract = kernel.contract
        self.number = number
        self.cases = kernel.contract.cases_of(number)
        self.names = [n for n, weight in self.contract.weights.items() if weight.same_as is None]
        self.n_inputs = len(self.cases[0].inputs)
        self._original = _without_memory(original)
        self._is_taught = False
        self._instances = threading.local()
        self._running_original = threading.RLock()

    def call(self, *tensors: torch.Tensor) -> Any:
        """Run the kernel on the tensors of a call and the weights."""
        case, inputs, weights = self._split(tensors)
        instance = self._instance_for(weights)
        known = self.contract.weights
        with torch.no_grad(), torch._C._DisableAutocast(), torch._C.DisableTorchFunction():  # as verified
            inputs = [*map(_laid_out, inputs, case.inputs)]
            given = zip(self.names, weights, strict=True)
            by_name = {name: _laid_out(tensor, known[name].facts) for name, tensor in given}
            taken = [by_name[weight.same_as or name] for name, weight in known.items()]
            found = tensors_of(instance.call_with(taken, *self.kernel.arguments(case, inputs)))
        self.kernel.count_operator_call()
        return _as_returned(_apart(found, tensors))

    def _instance_for(self, weights: Sequence[torch.Tensor]) -> KernelInstance:
        """Return the thread's instance; another one where frozen weights, which it may keep, have changed."""
        own = self._instances
        if not hasattr(own, "instance") or (self.contract.is_frozen and not own.weights.are(weights)):
            own.instance, own.weights = self.kernel.make(), SameWeights(weights)
            watch(weights if self.contract.is_frozen else ())
        found: KernelInstance = own.instance
        return found

    def fake(self, *tensors: torch.Tensor) -> Any:
        """Return empty tensors like the kernel's results."""
        case, _, _ = self._split(tensors)
        return _as_returned([_empty(facts, tensors) for facts in case.outputs])

    def _split(
        self, tensors: Sequence[torch.Tensor]
    ) -> tuple[Case, Sequence[torch.Tensor], Sequence[torch.Tensor]]:
        n_weights = len(self.names)
        inputs, weights = tensors[: len(tensors) - n_weights], tensors[len(tensors) - n_weights :]
        for known_case in self.cases:
            if len(inputs) != len(known_case.inputs) or known_case.outside(inputs) is not None:
                continue
            case = known_case.for_call(inputs)
            facts = [*case.inputs, *(self.contract.weights[name].facts for name in self.names)]
            written = [self._is_written(place) for place in range(len(facts))]
            if len(facts) == len(tensors) and all(map(_fits, tensors, facts, written)):
                return case, inputs, weights
        raise RuntimeError(f"{self.contract.title}: {self._misfit(inputs, weights)}")

    def _misfit(self, inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> str:
        """Say which tensor of a call is none that was verified, and what to do."""
        for name, tensor in zip(self.names, weights, strict=True):
            weight = self.contract.weights[name]
            if not _fits(tensor, weight.facts, weight.is_written):
                wanted = f"{name} as {_facts_told(weight.facts)}, not as {_told(tensor)}"
                return f"the kernel was verified with {wanted}; convert the weights back, or call the module"
        got = ", ".join(map(_told, inputs))
        known = "; ".join(", ".join(_facts_told(f) for f in c.inputs) for c in self.cases)
        return f"the kernel was verified on {known}, not on {got}; call the module, which runs its original"

    # -- gradients ---------------------------------------------------------------------------------

    def save(self, ctx: Any, inputs: Sequence[torch.Tensor], output: Any) -> None:
        """Keep what the way back computes from, and say which results it does not begin at."""
        ctx.save_for_backward(*inputs)
        ctx.is_wanted = [tensor.requires_grad for tensor in inputs]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*self._unreached(tensors_of(output), ctx.is_wanted))

    def _unreached(self, results: Sequence[torch.Tensor], wanted: Sequence[bool]) -> list[torch.Tensor]:
        """Return the results that are known to have no part in the gradients that are wanted."""
        gradients, asked = self.contract.gradients, set(_places(wanted))
        if gradients is None or not asked <= set(self._computed):
            return []
        reached = [{self._computed[k] for k in gradients.through([i])} for i in range(len(results))]
        return [result for result, places in zip(results, reached, strict=True) if asked.isdisjoint(places)]

    def backward(self, ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Run the backward kernel, or compute the original again and go back through it.

        There is no gradient where the gradients that are given do not lead, as in the original.
        """
        by_kernel = self._by_kernel(ctx.saved_tensors, grads, ctx.is_wanted)
        return by_kernel or self._recomputed(ctx.saved_tensors, grads, ctx.is_wanted)

    def teach(self, original: nn.Module) -> None:
        """Compute gradients by this original, which is as verified; the one of the beginning may not be."""
        if not self._is_taught:
            self._original, self._is_taught = _without_memory(original), True

    @cached_property
    def _backward(self) -> Callable[..., Any] | None:
        kernel, gradients = self.kernel.backward, self.contract.gradients
        if kernel is None or gradients is None:
            return None
        arguments = self.contract.cases[0].arguments
        return operator_of(kernel, BackwardModule(self._original, arguments, self.contract.spread, gradients))

    @cached_property
    def _computed(self) -> list[int]:
        """Places, among all tensors, of those whose gradients a backward kernel computes."""
        gradients = self.contract.gradients
        if gradients is None:
            return []
        names = [self.n_inputs + self.names.index(name) for name in gradients.parameters]
        return [*gradients.inputs, *names]

    def _by_kernel(
        self,
        tensors: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor | None],
        wanted: Sequence[bool],
    ) -> tuple[torch.Tensor | None, ...] | None:
        """Return the gradients by the backward kernel; None where it was not verified for what is asked."""
        kernel, gradients = self.kernel.backward, self.contract.gradients
        if kernel is None or gradients is None or self._backward is None:
            return None
        asked = set(_places(wanted))
        if not asked <= set(self._computed):
            return None
        asked &= {self._computed[k] for k in gradients.through(_places([g is not None for g in grads]))}
        if not asked:
            return (None,) * len(tensors)
        facts = self._split(tensors)[0].outputs
        given = [_given(grads[i], facts[i], tensors) for i in gradients.results]
        call = [*tensors[: self.n_inputs], *given]
        if not any(case.is_met_by(call) for case in kernel.contract.cases_of(0)):
            return None
        computed = tensors_of(self._backward(*call, *tensors[self.n_inputs :]))
        found = dict(zip(self._computed, computed, strict=True))
        return tuple(found[place] if place in asked else None for place in range(len(tensors)))

    def _recomputed(
        self,
        tensors: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor | None],
        wanted: Sequence[bool],
    ) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients by the original; where gradients are on, these have gradients themselves."""
        is_recorded = torch.is_grad_enabled()
        tensors = [_apart_from(t, w, is_recorded) for t, w in zip(tensors, wanted, strict=True)]
        with torch.enable_grad(), torch._C._DisableAutocast():  # the call that was recorded had none
            outputs = tensors_of(self.original_on(tensors))
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None and o.requires_grad]
        asked = [tensor for tensor, is_wanted in zip(tensors, wanted, strict=True) if is_wanted]
        found: Sequence[torch.Tensor | None] = [None] * len(asked)
        if pairs and asked:
            ends, given = zip(*pairs, strict=True)
            found = torch.autograd.grad(ends, asked, given, allow_unused=True, create_graph=is_recorded)
        left = iter(found)
        return tuple(next(left) if is_wanted else None for is_wanted in wanted)

    def original_on(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return what the original makes of an operator's arguments."""
        case, inputs, weights = self._split(tensors)
        held = dict(zip(self.names, weights, strict=True))
        positional, named = arguments_from(case.arguments, self.contract.spread, inputs)
        with self._running_original:  # one original for all threads, with the weights of one call in it
            return forward_on(self._original, held, positional, named)

    # -- registration ------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        """The operator's schema, without its name."""
        n_outputs = len(self.cases[0].outputs)
        returned = "Tensor" if n_outputs == 1 else f"({', '.join(['Tensor'] * n_outputs)})"
        if self.is_listed:
            return f"(Tensor[] read{', Tensor(a!)[] written' if self.is_mutable else ''}) -> {returned}"
        arguments = [f"Tensor x{i}" for i in range(self.n_inputs)]
        for number, name in enumerate(self.names):
            is_written = self.contract.weights[name].is_written
            alias = f"(a{number}!)" if is_written else ""
            arguments.append(f"Tensor{alias} w{number}")
        return f"({', '.join(arguments)}) -> {returned}"

    @property
    def is_mutable(self) -> bool:
        """True where a call changes weights."""
        return any(self.contract.weights[name].is_written for name in self.names)

    @property
    def is_listed(self) -> bool:
        """True where the operator takes its tensors in lists."""
        return self.n_inputs + len(self.names) > MAX_ARGUMENTS

    def define(self) -> Callable[..., Any]:
        """Register the operator; return what calls it with one tensor after the other."""
        title = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.contract.title)
        title = title.strip("_")
        name = f"{title if title[:1].isalpha() else f'kernel_{title}'}_{self.kernel.digest}"
        name += f"_{self.number}" if self.number else ""
        written = [f"w{i}" for i, n in enumerate(self.names) if self.contract.weights[n].is_written]
        if self.is_listed:
            written = ["written"] if self.is_mutable else []
        call, fake = (self._from_lists(self.call), self._from_lists(self.fake))
        op = torch.library.custom_op(f"{NAMESPACE}::{name}", call, mutates_args=written, schema=self.schema)
        op.register_fake(fake)
        if not self.is_mutable:
            self._register_ways_back(op)
        found: Callable[..., Any] = getattr(getattr(torch.ops, NAMESPACE), name).default
        return self._to_lists(found) if self.is_listed else found

    def _register_ways_back(self, op: Any) -> None:
        if not self.is_listed:
            op.register_autograd(self.backward, setup_context=self.save)
            op.register_vmap(self.one_by_one)
            return

        def save(ctx: Any, inputs: tuple[list[torch.Tensor]], output: Any) -> None:
            self.save(ctx, inputs[0], output)

        def backward(ctx: Any, *grads: torch.Tensor | None) -> list[torch.Tensor | None]:
            return list(self.backward(ctx, *grads))

        def one_by_one(info: Any, dims: tuple[Any, ...], tensors: list[torch.Tensor]) -> tuple[Any, Any]:
            return self.one_by_one(info, tuple(dims[0]), *tensors)

        op.register_autograd(backward, setup_context=save)
        op.register_vmap(one_by_one)

    def _is_written(self, place: int) -> bool:
        """Tell whether a call may change the tensor at a place among all of them."""
        return place >= self.n_inputs and self.contract.weights[self.names[place - self.n_inputs]].is_written

    def _to_lists(self, op: Callable[..., Any]) -> Callable[..., Any]:
        places = [self._is_written(i) for i in range(self.n_inputs + len(self.names))]
        is_mutable = self.is_mutable

        def call(*tensors: torch.Tensor) -> Any:
            read = [t for t, is_written in zip(tensors, places, strict=True) if not is_written]
            written = [t for t, is_written in zip(tensors, places, strict=True) if is_written]
            return op(read, written) if is_mutable else op(read)

        return call

    def _from_lists(self, method: Callable[..., Any]) -> Callable[..., Any]:
        if not self.is_listed:
            return method

        def call(read: Sequence[torch.Tensor], written: Sequence[torch.Tensor] = ()) -> Any:
            kept, changed = iter(read), iter(written)
            n_tensors = len(read) + len(written)
            return method(*(next(changed if self._is_written(i) else kept) for i in range(n_tensors)))

        return call

    def one_by_one(self, info: Any, dims: tuple[int | None, ...], *tensors: torch.Tensor) -> tuple[Any, Any]:
        """Under ``vmap``: call the operator for each member of the batch."""
        operator = operator_of(self.kernel, self._original, self.number)
        pairs = list(zip(tensors, dims, strict=True))
        results = [
            tensors_of(operator(*(t if d is None else t.select(d, i).contiguous() for t, d in pairs)))
            for i in range(info.batch_size)
        ]
        stacked = [torch.stack(column) for column in zip(*results, strict=True)]
        return _as_returned(stacked), _as_returned([0] * len(stacked))


def operator_of(kernel: VerifiedKernel, original: nn.Module, number: int = 0) -> Callable[..., Any]:
    """Return one of a kernel's operators, defined now if it is not yet; ``original`` computes gradients."""
    known: dict[int, tuple[KernelOperator, Callable[..., Any]]]
    known = vars(kernel.namespace).setdefault(DEFINED, {})
    with _defining:
        if number not in known:
            made = KernelOperator(kernel, original, number)
            known[number] = made, made.define()
    return known[number][1]


def teach_operators(kernel: VerifiedKernel, original: nn.Module) -> None:
    """Let a kernel's operators compute gradients by an original that is as verified."""
    for operator, _ in vars(kernel.namespace).get(DEFINED, {}).values():
        operator.teach(original)


def _without_memory(original: nn.Module) -> nn.Module:
    """Return a copy whose weights have no memory: it is only ever called with others in their place."""
    memo: dict[int, Any] = {}
    for tensor in weights_of(original).values():
        empty = torch.empty_like(tensor, device="meta")
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
    copied: nn.Module = copy.deepcopy(original, memo)
    copied.__class__ = original_class(type(copied))
    return copied


def _apart_from(tensor: torch.Tensor, is_wanted: bool, is_recorded: bool) -> torch.Tensor:
    """Return a tensor whose gradient leaves out what its history shares with other arguments."""
    if is_recorded and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_(is_wanted)


def _fits(tensor: torch.Tensor, facts: TensorFacts, is_written: bool = False) -> bool:
    """Say whether a tensor is as verified; one that is only read may lie otherwise, and is copied then."""
    if tensor.shape != facts.shape or tensor.dtype is not getattr(torch, facts.dtype):
        return False
    if tensor.device.type not in (facts.device, "meta"):
        return False
    return _lies_so(tensor, facts) or not (is_written or _overlaps(facts))


def _lies_so(tensor: torch.Tensor, facts: TensorFacts) -> bool:
    is_so = tensor.stride() == facts.stride or same_strides(facts.shape, tensor.stride(), facts.stride)
    return is_so and not (tensor.is_neg() or tensor.is_conj())


def _overlaps(facts: TensorFacts) -> bool:
    """True where elements share memory, as in an expanded tensor, of which no copy can be made."""
    return any(size != 1 and step == 0 for size, step in zip(facts.shape, facts.stride, strict=True))


def _laid_out(tensor: torch.Tensor, facts: TensorFacts) -> torch.Tensor:
    """Return a tensor as it lay when it was verified: itself, or a copy."""
    return tensor if _lies_so(tensor, facts) else _empty(facts, [tensor]).copy_(tensor)


def _told(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"


def _facts_told(facts: TensorFacts) -> str:
    return f"{facts.shape} {facts.dtype} on {facts.device}"


def _empty(facts: TensorFacts, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    device = tensors[0].device if tensors else torch.device(facts.device)
    dtype = getattr(torch, facts.dtype)
    return torch.empty_strided(
        cast("Sequence[int]", facts.shape), cast("Sequence[int]", facts.stride), dtype=dtype, device=device
    )


def _given(grad: torch.Tensor | None, facts: TensorFacts, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a result's gradient as a kernel takes it: zeros where none is given."""
    return (_empty(facts, tensors).zero_() if grad is None else grad).contiguous()


def _places(which: Sequence[bool]) -> list[int]:
    return [place for place, is_one in enumerate(which) if is_one]


def _apart(found: list[torch.Tensor], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return results that share no memory with the arguments, nor with each other: operators must not."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in given}
    apart = []
    for tensor in found:
        address = tensor.untyped_storage().data_ptr()
        apart.append(tensor.clone() if address in taken else tensor)
        taken.add(address)
    return apart


def _as_returned(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)
