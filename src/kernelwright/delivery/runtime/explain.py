"""Why the original runs: the same conditions as in the guards, one by one and in words."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from .calls import Cause
from .classes import makes_names, names_read, names_spoken_of
from .contract import (
    STANDARD,
    Contract,
    TensorFacts,
    attributes_of,
    bound,
    constants_of,
    hidden_tensors,
    is_apart,
    is_derived,
    original_class,
    parts_of,
    same_attribute,
    signature_of,
    weights_of,
    written_weights,
)
from .described import digest_of, is_same_class, not_held
from .guards import GLOBAL_HOOKS, HOOKS, State, has_only_device, version_of
from .order import order_of
from .pins import Pinned, Whereabouts
from .structure import differences, take_apart

PLAIN_TYPES = (torch.Tensor, nn.Parameter, nn.parameter.Buffer)


def state_cause(contract: Contract) -> Cause | None:
    """Return what of the process keeps the kernel from running."""
    if torch._C._get_tracing_state() is not None:
        return Cause("trace", "torch.jit.trace records the call")
    if not has_only_device(contract.devices) and not torch._C._len_torch_dispatch_stack():
        return Cause("function mode", "a torch function mode or a default device of another kind is set")
    for mode in _get_current_dispatch_mode_stack():
        if getattr(mode, "_mode_key", None) is None:  # those of tracers have a key
            return Cause("dispatch mode", f"a {type(mode).__name__} watches the operators")
    for device in contract.devices:
        if torch.is_autocast_enabled(device):
            return Cause(
                "autocast",
                "autocast is on, and the kernel was verified without",
                "call it under torch.autocast(..., enabled=False) if its own precision is wanted",
            )
    return global_cause(contract)


def global_cause(contract: Contract) -> Cause | None:
    """Return what of the state that is global, and that tracers see too, is not as it was verified.

    A graph is traced anew where another transform is at work: torch.compile guards on that itself.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return Cause("transform", "a transform of torch.func (vmap, grad, jvp) is at work")
    if forward_ad._current_level >= 0:
        return Cause("transform", "forward-mode differentiation is at work")
    if str(torch.get_default_dtype()) != f"torch.{contract.default_dtype}":
        return Cause("default dtype", f"the default dtype is {torch.get_default_dtype()}")
    if any(GLOBAL_HOOKS):
        return Cause("hooks", "global module hooks are registered, which the kernel does not run")
    return None


def module_cause(contract: Contract, module: nn.Module, pinned: Pinned) -> Cause | None:
    """Return what of the module is not as it was verified.

    Args:
        contract: what must hold.
        module: the delivered one.
        pinned: its attributes that have been compared with their descriptions; those found alike are added.
    """
    return next(module_causes(contract, module, pinned), None)


def module_causes(contract: Contract, module: nn.Module, pinned: Pinned) -> Iterator[Cause]:
    """Yield everything of the module that is not as it was verified."""
    if contract.effects:
        names = ", ".join(contract.effects[:3])
        yield Cause("effects", f"a call changes {names}, which a kernel does not do")
    parts, where = dict(parts_of(module)), Whereabouts(module)
    if parts.keys() != contract.parts.keys():
        names = ", ".join(sorted(parts.keys() ^ contract.parts.keys())[:3])
        yield Cause("structure", f"submodules were added or removed: {names}")
    for path, part in parts.items():
        if path in contract.parts:
            yield from _part_causes(contract, path, part, pinned, where)
            same_as = contract.parts[path].same_as
            if same_as is not None and parts.get(same_as) is not part:
                yield Cause("structure", f"{path} is no longer the same module as {same_as}")
    yield from _tensor_causes(contract, module)
    yield from _constant_causes(contract, module)
    yield from _alias_causes(contract, module)


def _part_causes(
    contract: Contract, path: str, part: nn.Module, pinned: Pinned, where: Whereabouts
) -> Iterator[Cause]:
    verified, title, kind = contract.parts[path], path or "the module", original_class(type(part))
    if nn.utils.parametrize.is_parametrized(part):
        yield Cause("parametrization", f"{title} is parametrized")
    elif not path and is_derived(kind):
        yield Cause("structure", f"the module is a {kind.__qualname__}, derived from a delivered class")
    elif not is_same_class(kind, verified.cls, verified.code):
        other = ", with other code" if kind.__qualname__ == verified.cls.partition(":")[2] else ""
        yield Cause("structure", f"{title} is a {type(part).__qualname__}, verified as {verified.cls}{other}")
    if path and any(vars(part)[hooks] for hooks in HOOKS):
        yield Cause(
            "hooks", f"{title} has hooks, which the kernel does not run", "remove them for the fast one"
        )
    if part.training is not verified.attributes.get("training"):
        mode, other = ("train", "eval") if part.training else ("eval", "train")
        text = f"{title} is in {mode} mode, verified in {other} mode"
        yield Cause("mode", text, f"call .{other}() for the fast one")
    for holder, names in order_of(part).items():
        wanted = verified.order.get(holder, names)
        if names != wanted and {*names} == {*wanted}:
            found = f"{', '.join(names[:3])}, verified as {', '.join(wanted[:3])}"
            yield Cause("structure", f"the {holder[1:]} of {title} stand in another order: {found}")
    yield from _attribute_causes(contract, path, part, pinned, where)


def _attribute_causes(
    contract: Contract, path: str, part: nn.Module, pinned: Pinned, where: Whereabouts
) -> Iterator[Cause]:
    verified, title, own = contract.parts[path], path or "the module", attributes_of(part)
    if path and "forward" in own:
        yield Cause("structure", f"the forward of {title} was replaced")
    for name, value in verified.attributes.items():
        if name != "training" and (name not in own or not same_attribute(own[name], value)):
            text = f"{name} of {title} is {own.get(name, 'missing')!r}, verified with {value!r}"
            yield Cause("attribute", text)
    for name, description in verified.opaque.items():
        if name not in own or not where.has_described(path, name, own[name], description, pinned):
            yield Cause("attribute", f"{name} of {title} was replaced or changed")
    for name in vars(part).keys() & {*part._parameters, *part._buffers, *part._modules}:
        yield Cause("attribute", f"an attribute hides {name} of {title}")
    kind = original_class(type(part))
    known = {*verified.attributes, *verified.opaque, *STANDARD, *not_held(part)}
    if not path and "forward" not in names_spoken_of(kind):
        known.add("forward")  # a wrapper that calls this one: what else it does is its own
    for name in vars(part).keys() - known:
        is_constant = f"{path}.{name}".lstrip(".") in contract.constants
        if not is_constant and (name in names_read(kind) or makes_names(kind)):
            yield Cause("attribute", f"{name} of {title} is new, and its class may read it")


def _tensor_causes(contract: Contract, module: nn.Module) -> Iterator[Cause]:
    held = weights_of(module)
    if held.keys() != contract.weights.keys():
        names = ", ".join(sorted(held.keys() ^ contract.weights.keys())[:3])
        yield Cause("weights", f"weights were added or removed: {names}")
    for name, weight in contract.weights.items():
        tensor = held.get(name)
        if tensor is None:
            continue
        if type(tensor) not in PLAIN_TYPES and not is_fake(tensor):
            yield Cause("weights", f"{name} is a {type(tensor).__name__}")
        elif weight.same_as is not None and tensor is not held.get(weight.same_as):
            yield Cause("weights", f"{name} is no longer the same tensor as {weight.same_as}")
        elif (found := weight.facts.difference(tensor)) is not None:
            yield Cause(found[0], f"{name} {found[1]}")
        elif _is_nowhere(tensor):
            yield Cause("memory", f"{name} has no memory")


def _constant_causes(contract: Contract, module: nn.Module) -> Iterator[Cause]:
    constants = {path: (tensor, leaf in part._buffers) for path, part, leaf, tensor in constants_of(module)}
    for name, (_, is_buffer) in constants.items():
        if is_buffer and name not in contract.constants:
            yield Cause("structure", f"{name} is a buffer that was not there when the kernel was made")
    for name, constant in contract.constants.items():
        value, _ = constants.get(name, (None, False))
        is_known = value is not None and is_fake(value)  # a tracer's, in the place of the module's own
        if value is None:
            yield Cause("structure", f"{name} is no tensor any more")
        elif not is_known and (constant.facts.difference(value) or digest_of(value) != constant.digest):
            yield Cause("constant", f"{name} has other values than when the kernel was made")


def _alias_causes(contract: Contract, module: nn.Module) -> Iterator[Cause]:
    """A kernel writes at its end what the original may write before it reads it under another name.

    Names are compared, as one tensor may have taken another's place; those tied in the verdict may be.
    """
    held, everything = weights_of(module), held_tensors(module)
    for name in written_weights(contract):
        for other, tensor in everything.items():
            weight = contract.weights.get(other)
            is_tied = other == name or (weight is not None and weight.same_as == name)
            if name in held and not is_tied and (tensor is held[name] or _shares(tensor, held[name])):
                yield Cause("aliases", f"{other} shares memory with {name}, which a call writes")


def call_cause(
    contract: Contract,
    module: nn.Module,
    kind: type[nn.Module],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Cause | None:
    """Return what of a call was not verified; a call that forward does not take has no cause of ours."""
    given = bound(signature_of(kind), args, kwargs)
    causes = [_case_cause(contract, number, kind, given) for number in range(len(contract.cases))]
    if None not in causes:
        ranked = sorted((cause for cause in causes if cause), key=lambda cause: cause.kind == "arguments")
        return ranked[0]
    tensors = take_apart(list(given.values()), _is_tensor)[1]
    held = weights_of(module)
    for name in written_weights(contract):
        if any(_shares(tensor, held[name]) for tensor in tensors if name in held):
            return Cause("aliases", f"an input shares memory with {name}, which a call writes")
    needs = [*tensors, *held_tensors(module).values()]
    if torch.is_grad_enabled():
        if any(tensor.requires_grad for tensor in hidden_tensors(contract, module)):
            return _gradients_wanted("a tensor in an attribute")
        if any(tensor.requires_grad for tensor in needs):
            return _gradient_cause(contract, module, tensors)
    return None


def _gradients_wanted(what: str = "something") -> Cause:
    text = f"gradients are enabled and {what} requires them"
    return Cause("gradients", text, "use torch.no_grad() for the fast one")


def case_number(contract: Contract, kind: type[nn.Module], given: dict[str, Any]) -> int:
    """Return which case a call is like that has no cause."""
    numbers = range(len(contract.cases))
    return next(number for number in numbers if _case_cause(contract, number, kind, given) is None)


def _gradient_cause(contract: Contract, module: nn.Module, tensors: list[torch.Tensor]) -> Cause | None:
    """Return why a call that needs gradients runs the original; None where a kernel computes them."""
    if contract.gradients is None:
        return _gradients_wanted()
    known, own = contract.gradients, held_tensors(module)
    missing = [name for name in known.parameters if not own[name].requires_grad]
    more = [name for name in contract.without_gradient if own[name].requires_grad]
    more += [f"input {i}" for i, t in enumerate(tensors) if i not in known.inputs and t.requires_grad]
    if missing or more:
        others = ", ".join([*more, *(f"not of {name}" for name in missing)][:4])
        return Cause("gradients", f"the backward kernel computes other gradients: {others}")
    return None


def _case_cause(
    contract: Contract, number: int, kind: type[nn.Module], given: dict[str, Any]
) -> Cause | None:
    case = contract.cases[number]
    parameters = signature_of(kind).parameters
    values = {p.name: p.default for p in parameters.values() if p.default is not p.empty} | given
    for name, value in given.items():
        is_default = same_attribute(value, parameters[name].default)
        if name not in case.arguments and name not in case.defaults and not is_default:
            return Cause("arguments", f"{name} was given, verified without")
    for name, structure in (*case.arguments.items(), *case.defaults.items()):
        for words in differences(values.get(name), structure, _is_tensor, name):
            return Cause("arguments", f"argument {words}")
    tensors = take_apart([values.get(name) for name in case.arguments], _is_tensor)[1]
    if (outside := case.outside(tensors)) is not None:
        return Cause("shape", outside)
    facts_of_call = case.for_call(tensors).inputs
    for position, (tensor, facts) in enumerate(zip(tensors, facts_of_call, strict=True)):
        if type(tensor) not in PLAIN_TYPES and not is_fake(tensor):
            return Cause("arguments", f"an argument is a {type(tensor).__name__}")
        found = facts.difference(tensor)
        if found is not None:
            mend = "call .contiguous() on it for the fast one" if found[0] == "layout" else None
            return Cause(found[0], f"input {position} {found[1]}", mend)
        if _is_nowhere(tensor):
            return Cause("memory", f"input {position} has no memory")
    return None


def held_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return every tensor that a module holds, by name."""
    return weights_of(module) | {path: tensor for path, _, _, tensor in constants_of(module)}


def hidden_states(contract: Contract, module: nn.Module) -> tuple[State, ...]:
    """Return the tensors that attributes of other kinds hold and a kernel may have built in.

    The module's own weights, which kernels read, are left out.
    """
    own = {id(tensor) for tensor in weights_of(module).values()}
    return tuple(
        (tensor, TensorFacts.of(tensor), tensor.data_ptr(), version_of(tensor))
        for tensor in hidden_tensors(contract, module)
        if id(tensor) not in own and type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided
    )


def _is_nowhere(tensor: torch.Tensor) -> bool:
    """True for a tensor that stands for others, such as one of zeros that nobody has written."""
    return not is_fake(tensor) and tensor.numel() > 0 and tensor.data_ptr() == 0


def _shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not (is_fake(one) or is_fake(other) or is_apart(one, other))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_fake(tensor: torch.Tensor) -> bool:
    """True for tensors of tracers, which have no memory: operators know what to do with them."""
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")
