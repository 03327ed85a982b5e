"""A delivered module: a subclass of the original's class whose forward tries the kernel first.

Everything else is the original's own: attributes, methods, parameters, state. What was not verified runs the
original's forward on the module's own parameters.
"""

import copy
import copyreg
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

import torch
from torch import fx, nn
from torch.utils._python_dispatch import _disable_current_modes

from .aliases import with_aliases, without_views
from .calls import CallCounts, CallReport, Cause, NotVerifiedError, advise, is_strict_here
from .classes import ORIGINAL
from .contract import (
    Contract,
    hidden_tensors,
    original_class,
    others_of,
    parts_of,
    require_underived,
    signature_of,
    weights_of,
)
from .derived import derived
from .described import OWN
from .explain import (
    call_cause,
    case_number,
    global_cause,
    held_tensors,
    hidden_states,
    is_fake,
    module_cause,
    state_cause,
)
from .guards import Guards, Held, generate, needs_gradients, version_of
from .kernel import KernelInstance, VerifiedKernel, tensors_of
from .operator import operator_of, teach_operators
from .pins import Pinned, referred_to
from .structure import UnstructuredError, put_together, take_apart
from .writes import watch

OTHER_TENSORS = frozenset({"structure", "weights", "device", "dtype", "shape", "layout", "memory"})
"""Kinds of causes that say that the module has other tensors than those that are bound."""


class ModuleState:
    """What one delivered module has of ours. A copy of the module begins with a fresh one."""

    def __init__(self, kernel: VerifiedKernel, *, strict: bool = False) -> None:
        self.kernel = kernel
        self.counts = CallCounts(strict=strict)
        self.owner: dict[str, int] = {}
        """Whose state it is; a replica takes all attributes of another module, this one among them."""
        self.operator_calls_before = kernel.operator_calls
        self.backward_calls_before = kernel.backward_calls
        self.bound: tuple[Any, ...] = ()
        """The kernel's call, then what the guards compare, as one object: a thread that finds it has a call
        with weights, whatever another one does. Empty: look at the module first."""
        self.seen: tuple[Any, ...] = ()
        """What tracers compare by identity, as it was when the module was last looked at whole."""
        self.pinned: Pinned = {}
        """Of attributes of other kinds, which of the module's own they referred to when it was looked at."""
        self._instance: KernelInstance | None = None
        self._lending: KernelInstance | None = None

    def bind(self, module: nn.Module, layout: tuple[Held, ...]) -> Cause | Callable[..., Any]:
        """Look at the whole module; return why the kernel may not run, or the kernel's call."""
        contract = self.kernel.contract
        cause = module_cause(contract, module, self.pinned)
        if cause is not None:
            if cause.kind in OTHER_TENSORS:
                self.release()
            return cause
        held = weights_of(module)
        weights = [held[name] for name in contract.weights]
        parts = dict(parts_of(module))
        if _has_others_weights(parts.values()):
            return self._lent(weights)
        instance = self._instance
        if instance is None or contract.is_frozen:
            instance = self._instance = self.kernel.make()
        instance.take(weights)
        has_memory = not any(map(is_fake, weights))
        self.bound = (
            (instance.call, *(_held(contract, parts, wanted) for wanted in layout)) if has_memory else ()
        )
        if has_memory:
            told = contract.constants.keys() | (contract.weights.keys() if contract.is_frozen else set())
            constants = [tensor for name, tensor in held_tensors(module).items() if name in told]
            kept = [*constants, *(state[0] for state in hidden_states(contract, module))]
            instance.hold(kept)
            watch(kept)
            teach_operators(self.kernel, module)
        return instance.call

    def _lent(self, weights: list[torch.Tensor]) -> Callable[..., Any]:
        """Return a call with weights that are the module's for this call alone: nothing keeps them alive."""
        if self._lending is None or self.kernel.contract.is_frozen:
            self._lending = self.kernel.make()
        return functools.partial(self._lending.call_with, weights)

    def belongs_to(self, module: nn.Module) -> bool:
        """Say whether it is a module's own; whoever asks first has it, whatever other threads do."""
        return self.owner.setdefault("id", id(vars(module))) == id(vars(module))

    def release(self) -> None:
        """Let go of the module's tensors, so that what it no longer has is freed; they are bound again."""
        self.bound, self._instance = (), None

    def holds(self, module: nn.Module, layout: tuple[Held, ...]) -> bool:
        """Say whether a module is as verified, for a tracer."""
        contract = self.kernel.contract
        with _disable_current_modes():
            is_verified = (global_cause(contract) or module_cause(contract, module, self.pinned)) is None
        if is_verified:
            parts, referred = dict(parts_of(module)), referred_to(self.pinned)
            self.seen = tuple(_held(contract, parts, wanted, referred) for wanted in layout)
        return is_verified

    def __deepcopy__(self, memo: dict[int, Any]) -> "ModuleState":
        return ModuleState(self.kernel, strict=self.counts.strict)

    def __copy__(self) -> "ModuleState":
        return ModuleState(self.kernel, strict=self.counts.strict)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(ModuleState, strict=self.counts.strict), (self.kernel,)


def _held(
    contract: Contract, parts: Mapping[str, nn.Module], wanted: Held, referred: Collection[int] = ()
) -> Any:
    """Return one thing that the guards compare; ``referred``: the identities of what attributes refer to."""
    part = parts[wanted.path]
    own = vars(part)
    found: dict[str, Callable[[], Any]] = {
        "owner": lambda: id(own),  # not the dict itself: a module that nobody has any more is freed at once
        "length": lambda: len(own),
        "others": lambda: others_of(contract, wanted.path, part),
        "hidden": lambda: hidden_tensors(contract, part),
        "states": lambda: hidden_states(contract, part),
        "attribute": lambda: own[wanted.name],
        "child": lambda: part,
        "kind": lambda: type(part),
        "tensor": lambda: _tensor(part, wanted.name),
        "referred": lambda: _referred(part, wanted.name, referred),
        "version": lambda: version_of(_tensor(part, wanted.name)),
        "address": lambda: _tensor(part, wanted.name).data_ptr(),
    }
    return found[wanted.kind]()


def _has_others_weights(parts: Iterable[nn.Module]) -> bool:
    """True where something else than a parameter stands for one: torch.func.functional_call puts it there."""
    return any(
        tensor is not None and not isinstance(tensor, nn.Parameter)
        for part in parts
        for tensor in part._parameters.values()
    )


def _referred(part: nn.Module, name: str, referred: Collection[int]) -> Any:
    """Return a tensor of a submodule, or the submodule itself, if an attribute refers to it."""
    found = _tensor(part, name) if name else part
    return found if id(found) in referred else None


def _tensor(part: nn.Module, name: str) -> Any:
    for holder in (part._parameters, part._buffers, vars(part)):
        if name in holder:
            return holder[name]
    raise KeyError(name)


def attach(kernel: VerifiedKernel, module: nn.Module, *, strict: bool = False) -> nn.Module:
    """Turn a module into a delivered one, in place, and return it.

    Raises:
        TypeError: it is of another class than the kernel was verified for, or of one derived from a delivered
            class.
    """
    kind = original_class(type(module))
    require_underived(kind)
    wanted = kernel.contract.parts[""].cls
    if kind.__qualname__ != wanted.partition(":")[2]:
        raise TypeError(f"the module is a {kind.__qualname__}; the kernel was made for {wanted}")
    vars(module).pop(OWN, None)
    module.__class__ = kind
    delivered = delivered_class(kernel, kind, module)
    vars(module)[OWN] = state = ModuleState(kernel, strict=strict)
    module.__class__ = delivered
    state.belongs_to(module)
    state.bind(module, _guards(delivered).layout)
    return module


def delivered_class(kernel: VerifiedKernel, kind: type[nn.Module], module: nn.Module) -> type[nn.Module]:
    """Return the subclass of the original's class that tries the kernel; one for each kernel and class."""
    made: dict[type, type[nn.Module]] = vars(kernel).setdefault("_delivered_classes", {})
    if kind not in made:
        numbers = sorted(set(kernel.contract.operators))
        operators = [operator_of(kernel, module, number) for number in numbers]
        guards = generate(kernel.contract, kind, operators, _otherwise)
        forward = functools.wraps(kind.forward)(guards.forward)
        forward.__signature__ = inspect.signature(kind.forward)  # type: ignore[attr-defined]
        members: dict[str, Any] = {
            "forward": forward,
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "__reduce_ex__": _reduce,
            "__prepare_scriptable__": _prepare_scriptable,
            "_apply": _apply,
            "train": _train,
            ORIGINAL: kind,
            "_kernelwright_kernel": kernel,
            "_kernelwright_guards": guards,
            "_kernelwright_operators": operators,
            "_kernelwright_holds": _kernelwright_holds,
            "_kernelwright_needs_hidden": _kernelwright_needs_hidden,
            "_kernelwright_is_strict": _kernelwright_is_strict,
        }
        if not hasattr(kind, "report"):
            members["report"] = _Report()
        if issubclass(kind, fx.GraphModule):
            members["recompile"] = _recompile
        made[kind] = derived(kind, members)
    return made[kind]


def _guards(delivered: type) -> Guards:
    found: Guards = delivered._kernelwright_guards  # type: ignore[attr-defined]
    return found


def _kernelwright_holds(self: nn.Module) -> bool:
    """Say, while a tracer is at work, whether the module is as verified."""
    return _state(self).holds(self, _guards(_delivered_base(self)).traced_layout)


def _kernelwright_needs_hidden(self: nn.Module) -> bool:
    """Say, while a tracer is at work, whether tensors inside attributes require gradients."""
    return needs_gradients(hidden_tensors(_state(self).kernel.contract, self))


def _kernelwright_is_strict(self: nn.Module) -> bool:
    """Say, while a tracer is at work, whether the original must not run."""
    return _state(self).counts.strict or is_strict_here()


for _constant in (_kernelwright_holds, _kernelwright_needs_hidden, _kernelwright_is_strict):
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result


def _delivered_base(module: nn.Module) -> type:
    return next(kind for kind in type(module).__mro__ if _is_ours(kind))


def _state(module: nn.Module) -> ModuleState:
    """Return a module's state; one that its class made by itself gets its own now."""
    own = vars(module)
    if OWN not in own:
        own[OWN] = ModuleState(module._kernelwright_kernel)  # type: ignore[arg-type]
    found: ModuleState = own[OWN]
    return found


class _Report:
    """Gives the method ``report`` where the original has nothing of that name, a submodule for example."""

    def __get__(self, module: nn.Module | None, kind: type[nn.Module]) -> Any:
        if module is None:
            return _report
        try:
            return kind.__getattr__(module, "report")
        except AttributeError:
            return functools.partial(_report, module)


def _report(self: nn.Module) -> CallReport:
    """Return how often the kernel ran, how often the original, and why."""
    state = _state(self)
    kernel = state.kernel
    return state.counts.report(
        kernel.operator_calls - state.operator_calls_before,
        kernel.backward_calls - state.backward_calls_before,
    )


def _apply(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Move or convert as the original does, and keep nothing of what the tensors were before."""
    kind: Any = _delivered_base(self)._kernelwright_original  # type: ignore[attr-defined]
    moved: nn.Module = kind._apply(self, *args, **kwargs)
    _state(self).release()
    return moved


def _train(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Set the mode as the original does; the next call looks at the whole module."""
    kind: Any = _delivered_base(self)._kernelwright_original  # type: ignore[attr-defined]
    found: nn.Module = kind.train(self, *args, **kwargs)
    _state(self).bound = ()
    return found


def _recompile(self: Any) -> Any:
    """Make a graph module's code anew from its graph; torch does so, too, when it pickles one.

    The code goes into the class, which is the original's here. Other code than before is no longer verified.
    """
    delivered: Any = _delivered_base(self)
    kernel, kind, before = delivered._kernelwright_kernel, delivered._kernelwright_original, self._code
    self.__class__ = kind
    code = self.recompile()
    if self._code == before:
        self.__class__ = delivered
    else:
        vars(kernel)["_delivered_classes"].pop(kind)  # whose original is the former code
        attach(kernel, self, strict=_state(self).counts.strict)
    return code


def _prepare_scriptable(self: nn.Module) -> nn.Module:
    """Say what torch.jit.script would say in other words."""
    raise NotImplementedError(
        f"torch.jit.script cannot take the kernel of this {type(self).__qualname__}, which is an operator of "
        "Python; script the original module, or use torch.export"
    )


def _reduce(self: nn.Module, protocol: Any) -> Any:
    """Pickle and copy as the original does; the class is made again from the kernel."""
    kind: type[nn.Module] = self._kernelwright_original  # type: ignore[assignment]
    kernel = self._kernelwright_kernel
    reduced = kind.__reduce_ex__(self, protocol)
    if not _is_ours(type(self)):
        return reduced  # of a class that was made of ours, e.g. by a parametrization
    if reduced[0] is copyreg.__newobj__ and reduced[1] == (type(self),):  # type: ignore[attr-defined]
        held = reduced[2]
        fresh = {**held, OWN: copy.copy(held[OWN])} if isinstance(held, dict) and OWN in held else held
        return (_blank, (kernel, kind), fresh, *reduced[3:])
    plain = kind.__new__(kind)
    plain.__dict__.update({name: value for name, value in vars(self).items() if name != OWN})
    return _attached, (kernel, plain)


def _attached(kernel: VerifiedKernel, plain: nn.Module) -> nn.Module:
    """Return a module from a pickle or a copy as a delivered one, or as it is where that cannot be."""
    try:
        return attach(kernel, plain)
    except Exception as error:  # of a compiler or a driver that is not there
        _without_kernel(plain, error, is_strict=False)
    plain.__class__ = original_class(type(plain))
    return plain


def _without_kernel(module: nn.Module, error: Exception, *, is_strict: bool) -> None:
    """Say that a module comes back without its kernel; raises NotVerifiedError where it is strict."""
    text = " ".join(f"the kernel of this {type(module).__qualname__} cannot be loaded: {error}".split())
    if is_strict or is_strict_here():
        raise NotVerifiedError(text) from error
    advise(f"{text}. The original module is what comes back", stacklevel=4)


def _is_ours(kind: type) -> bool:
    return "_kernelwright_guards" in vars(kind)


def _blank(kernel: VerifiedKernel, kind: type[nn.Module]) -> nn.Module:
    """Return a delivered module whose state is about to be filled in."""
    made = vars(kernel).get("_delivered_classes", {}).get(kind)
    blank: nn.Module = kind.__new__(kind)
    if made is None:
        # The operator needs an original for its gradients, which is not there before the state is: a stand-in
        # class makes the real one with its first call.
        made = _waiting_class(kernel, kind)
    blank.__class__ = made
    return blank


def _waiting_class(kernel: VerifiedKernel, kind: type[nn.Module]) -> type[nn.Module]:
    """Return a class that becomes the delivered one as soon as its state is set."""

    def __setstate__(self: nn.Module, state: Any) -> None:
        self.__class__ = kind
        cast(Any, self).__setstate__(state)
        mine = vars(self).pop(OWN, None) or ModuleState(kernel)
        try:
            delivered = delivered_class(kernel, kind, self)
        except Exception as error:  # of a compiler or a driver that is not there
            _without_kernel(self, error, is_strict=mine.counts.strict)
        else:
            vars(self)[OWN] = mine
            self.__class__ = delivered

    return derived(kind, {"__setstate__": __setstate__, "__module__": kind.__module__})


def _otherwise(self: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A guard failed: look closely, then run the kernel all the same, its operator or the original."""
    state = _state(self)
    if not state.belongs_to(self):
        state = vars(self)[OWN] = copy.copy(state)
        state.belongs_to(self)
    delivered = _delivered_base(self)
    kind: type[nn.Module] = delivered._kernelwright_original  # type: ignore[attr-defined]
    if torch.compiler.is_compiling():  # torch.export, which runs Python with tensors of its own
        return _guards(delivered).traced(self, args, kwargs)
    contract = state.kernel.contract
    found: Cause | Callable[..., Any] | None
    try:
        found = state_cause(contract) or _call_cause(contract, self, kind, args, kwargs)
        found = found or state.bind(self, _guards(delivered).layout)
    except Exception as error:  # what a stranger's tensor or attribute raises is no reason to fail
        found = Cause("unknown", f"it could not be checked ({error!r})")
    if not isinstance(found, Cause):
        return _run(self, state, found, args, kwargs)
    state.counts.original_runs(found)
    return kind.forward(self, *args, **kwargs)


def _call_cause(
    contract: Contract,
    module: nn.Module,
    kind: type[nn.Module],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Cause | None:
    try:
        return call_cause(contract, module, kind, args, kwargs)
    except UnstructuredError as error:
        return Cause("arguments", f"an argument holds {error}")


def _run(
    module: nn.Module,
    state: ModuleState,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run the kernel: by its call, or through its operator where somebody watches operators."""
    contract, delivered = state.kernel.contract, _delivered_base(module)
    given = signature_of(delivered._kernelwright_original).bind(*args, **kwargs).arguments  # type: ignore[attr-defined]
    number = case_number(contract, delivered._kernelwright_original, given)  # type: ignore[attr-defined]
    case = contract.cases[number]
    values = [given[name] for name in case.arguments if name in given]
    tensors = take_apart(values, lambda part: isinstance(part, torch.Tensor))[1]
    held = weights_of(module)
    weights = [held[name] for name, weight in contract.weights.items() if weight.same_as is None]
    everything = [*tensors, *weights]
    named = held_tensors(module)
    is_watched = torch._C._len_torch_dispatch_stack() or any(map(is_fake, everything))
    is_differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in everything)
    if is_watched or is_differentiated:
        operators: Any = delivered._kernelwright_operators  # type: ignore[attr-defined]
        out = operators[contract.operators[number]](*tensors, *weights)
        is_own = contract.gradients is not None  # results through which the operator's gradients come
        aliases = () if is_own else without_views(case.aliases)
        results = list(out) if isinstance(out, tuple) else [out]
        return put_together(case.result, with_aliases(results, aliases, tensors, named))
    state.counts.kernel_calls += 1
    torch.get_num_threads()  # as in the guards
    results = tensors_of(call(*state.kernel.arguments(case, tensors)))
    return put_together(case.result, with_aliases(results, case.aliases, tensors, named))
