"""Why the original runs: the same conditions as in the guards, one by one and in words."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .calls import Cause
from .contract import (
    Contract,
    attributes_of,
    bound,
    constants_of,
    digest_of,
    original_class,
    parts_of,
    same_attribute,
    signature_of,
)
from .guards import GLOBAL_HOOKS, HOOKS
from .structure import differences, take_apart

PLAIN_TYPES = (torch.Tensor, nn.Parameter, nn.parameter.Buffer)


def state_cause(contract: Contract) -> Cause | None:
    """Return what of the process keeps the kernel from running."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return Cause("transform", "a transform of torch.func (vmap, grad, jvp) is at work")
    if torch._C._get_tracing_state() is not None:
        return Cause("trace", "torch.jit.trace records the call")
    if torch._C._len_torch_function_stack() and not torch._C._len_torch_dispatch_stack():
        return Cause("function mode", "a torch function mode or a default device is set")
    for device in sorted({facts.device for case in contract.cases for facts in case.inputs}):
        if torch.is_autocast_enabled(device):
            return Cause(
                "autocast",
                "autocast is on, and the kernel was verified without",
                "call it under torch.autocast(..., enabled=False) if its own precision is wanted",
            )
    if str(torch.get_default_dtype()) != f"torch.{contract.default_dtype}":
        return Cause("default dtype", f"the default dtype is {torch.get_default_dtype()}")
    if any(GLOBAL_HOOKS):
        return Cause("hooks", "global module hooks are registered, which the kernel does not run")
    return None


def module_cause(
    contract: Contract, module: nn.Module, pinned: Mapping[tuple[str, str], Any]
) -> Cause | None:
    """Return what of the module is not as it was verified; ``pinned`` has its attributes of unknown kinds."""
    parts = dict(parts_of(module))
    if parts.keys() != contract.parts.keys():
        names = sorted(parts.keys() ^ contract.parts.keys())
        return Cause("structure", f"submodules were added or removed: {', '.join(names[:3])}")
    for path, part in parts.items():
        found = _part_cause(contract, path, part, pinned)
        if found is not None:
            return found
    return _tensor_cause(contract, module)


def _part_cause(
    contract: Contract, path: str, part: nn.Module, pinned: Mapping[tuple[str, str], Any]
) -> Cause | None:
    verified, title = contract.parts[path], path or "the module"
    if nn.utils.parametrize.is_parametrized(part):
        return Cause("parametrization", f"{title} is parametrized")
    if original_class(type(part)).__qualname__ != verified.cls.partition(":")[2]:
        return Cause("structure", f"{title} is a {type(part).__qualname__}, verified as {verified.cls}")
    if path and any(vars(part)[hooks] for hooks in HOOKS):
        return Cause(
            "hooks", f"{title} has hooks, which the kernel does not run", "remove them for the fast one"
        )
    own = attributes_of(part)
    if path and "forward" in own:
        return Cause("structure", f"the forward of {title} was replaced")
    if own.get("training") is not verified.attributes.get("training"):
        mode, other = ("train", "eval") if part.training else ("eval", "train")
        text = f"{title} is in {mode} mode, verified in {other} mode"
        return Cause("mode", text, f"call .{other}() for the fast one")
    for name, value in verified.attributes.items():
        if name not in own or not same_attribute(own[name], value):
            return Cause(
                "attribute", f"{name} of {title} is {own.get(name, 'missing')!r}, verified with {value!r}"
            )
    for name in verified.opaque:
        if name not in own or pinned.get((path, name), own[name]) is not own[name]:
            return Cause("attribute", f"{name} of {title} was replaced")
    return None


def _tensor_cause(contract: Contract, module: nn.Module) -> Cause | None:
    held = module.state_dict(keep_vars=True)
    if held.keys() != contract.weights.keys():
        names = sorted(held.keys() ^ contract.weights.keys())
        return Cause("weights", f"weights were added or removed: {', '.join(names[:3])}")
    for name, weight in contract.weights.items():
        tensor = held[name]
        if type(tensor) not in PLAIN_TYPES and not is_fake(tensor):
            return Cause("weights", f"{name} is a {type(tensor).__name__}")
        if weight.same_as is not None and tensor is not held[weight.same_as]:
            return Cause("weights", f"{name} is no longer the same tensor as {weight.same_as}")
        found = weight.facts.difference(tensor)
        if found is not None:
            return Cause(found[0], f"{name} {found[1]}")
    constants = {path: tensor for path, _, _, tensor in constants_of(module)}
    for name, constant in contract.constants.items():
        value = constants.get(name)
        if value is None or constant.facts.difference(value) or digest_of(value) != constant.digest:
            return Cause("constant", f"{name} has other values than when the kernel was made")
    return None


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
    needs = [*tensors, *module.parameters()]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in needs):
        return _gradient_cause(contract, module, tensors)
    return None


def _gradient_cause(contract: Contract, module: nn.Module, tensors: list[torch.Tensor]) -> Cause | None:
    """Return why a call that needs gradients runs the original; None where a kernel computes them."""
    if contract.gradients is None:
        return Cause(
            "gradients",
            "gradients are enabled and something requires them",
            "use torch.no_grad() for the fast one",
        )
    known, own = contract.gradients, dict(module.named_parameters(remove_duplicate=False))
    missing = [name for name in known.parameters if not own[name].requires_grad]
    more = [name for name in contract.plain_parameters if own[name].requires_grad]
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
        is_left_out = type(value) in (tuple, dict) and not value
        is_default = is_left_out or same_attribute(value, parameters[name].default)
        if name not in case.arguments and not is_default:
            return Cause("arguments", f"{name} was given, verified without")
    for name, structure in case.arguments.items():
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
    return None


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_fake(tensor: torch.Tensor) -> bool:
    """True for tensors of tracers, which have no memory: operators know what to do with them."""
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")
