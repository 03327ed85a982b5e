"""What a candidate's ``forward`` asks before it computes: a call and weights like those that were verified.

Kernels read memory by address. What they were not made for is refused in one line, never computed otherwise.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence

import torch

from kernelwright.core.printing import unparse
from kernelwright.ir.program import Buffer
from kernelwright.tasks.capture import Captured, Placeholder

NO_GRADIENTS = "this kernel has no gradients: call it under torch.no_grad(), or train the original module"
"""What a candidate says where a call of it would cut a graph of gradients."""
WATCHED = (
    "a kernel file cannot be traced or transformed: use the original module for torch.jit.trace, make_fx, "
    "torch.func, forward-mode gradients and modes that watch operators"
)
"""What a candidate says where somebody records or changes what operators do."""

HELPERS = '''
_PLAIN = (torch.Tensor, nn.Parameter)


def _has_memory(tensor):
    """False where a class of the user's holds the elements elsewhere, or runs operators by itself."""
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


_tracing, _functorch = torch._C._get_tracing_state, torch._C._functorch.peek_interpreter_stack
_n_dispatch, _n_function = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_forward_mode = torch.autograd.forward_ad


def _is_watched():
    """True where somebody records operators, or changes what they do; a default device is no matter."""
    return (
        _n_dispatch()
        or _tracing() is not None
        or _functorch() is not None
        or _forward_mode._current_level >= 0
        or (_n_function() and _has_modes())
    )


def _has_modes():
    from torch.utils._device import DeviceContext

    return any(type(mode) is not DeviceContext for mode in torch.overrides._get_current_function_mode_stack())


def _told(value):
    """Say what was given, in a few words."""
    if not isinstance(value, torch.Tensor):
        return " ".join(repr(value).split())[:80]
    kind = "" if type(value) in _PLAIN else f"{type(value).__name__} "
    return f"{kind}{tuple(value.shape)} {value.dtype} on {value.device}"


def _misfit(name, found, wanted):
    """Return what is raised for a weight that is not as it was verified."""
    words = f"{name} is {_told(found)}; this kernel was made for {wanted}"
    return ValueError(f"{words}: convert or load the weights anew, or use the original module")
'''


MARKED = f'''
class _Marked(torch.autograd.Function):
    """Results that want gradients, as the original's do, and say that there are none when asked for them."""

    @staticmethod
    def forward(ctx, weight, found):
        apart = [out.detach() for out in found]  # one may be an argument
        return apart[0] if len(apart) == 1 else tuple(apart)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("{NO_GRADIENTS}")


def _marked(weights, found):
    """Return a kernel's results where gradients are on: cut off, they would train all but its weights."""
    weight = next((weight for weight in weights if weight.requires_grad), None)
    if weight is None:
        return found
    if isinstance(found, torch.Tensor):
        return _Marked.apply(weight, [found])
    marked = _Marked.apply(weight, list(found))
    return type(found)([marked] if isinstance(marked, torch.Tensor) else marked)
'''


def refusals(tensors: Sequence[str], again: str | None) -> list[str]:
    """Return lines that raise where kernels would cut a graph of gradients or of a tracer.

    Args:
        tensors: names of forward's tensors: a call whose own want gradients is refused.
        again: the same call as text, where there are weights. They want gradients in every call outside
            ``no_grad``, wanted by anybody or not, so it is the way back that is refused.
    """
    lines = []
    if tensors:
        wanted = " or ".join(f"{name}.requires_grad" for name in tensors)
        lines = [
            f"if torch.is_grad_enabled() and ({wanted}):",
            f'    raise RuntimeError("{NO_GRADIENTS}")',
        ]
    lines += ["if _is_watched():", f'    raise RuntimeError("{WATCHED}")']
    if again is not None:
        lines += [
            "if torch.is_grad_enabled():",
            "    with torch.no_grad():",
            f"        found = {again}",
            "    return _marked(self.parameters(), found)",
        ]
    return lines


def is_alike(name: str, placeholder: Placeholder, device: str | None) -> str:
    """Return the condition that an argument is like the tensor that was verified."""
    return (
        f"type({name}) in _PLAIN and {name}.shape == {placeholder.shape}"
        f" and {name}.dtype is {placeholder.dtype}{_is_there(name, device)}"
    )


def weight_check(variable: str, buffer: Buffer, device: str | None) -> list[str]:
    """Return lines that raise where a weight is none that the kernels were verified with."""
    kind = f"torch.{buffer.dtype}"
    there = "the processor" if device is None else "the inputs' device"
    return [
        f"if not ((type({variable}) in _PLAIN or _has_memory({variable})) and {variable}.dtype is {kind}"
        f" and {variable}.shape == {buffer.shape}{_is_there(variable, device)}):",
        f'    raise _misfit("{buffer.source}", {variable}, "{buffer.shape} {kind} on {there}")',
    ]


def _is_there(name: str, device: str | None) -> str:
    """Return a condition, with its ``and``; none for the tensor that decides about the device."""
    if device is None:
        return f" and {name}.is_cpu"
    return "" if device == f"{name}.device" else f" and {name}.device == {device}"


def may_negate(buffer: Buffer) -> bool:
    """True where a view that negates may have the buffer's strides: every other number of complex ones."""
    is_every_one = any(
        type(n) is int and n > 1 and step == 1  # an extent that varies may be 1
        for n, step in zip(buffer.shape, buffer.stride, strict=True)
    )
    return getattr(torch, buffer.dtype).is_floating_point and not is_every_one


# -- arguments that are no tensors -----------------------------------------------------------------


def fixed_values(
    captured: Captured, arguments: Sequence[str], declared: ast.arguments | None, known: frozenset[str]
) -> Mapping[str, str]:
    """Return the expression that each argument which is no tensor must equal: the graph is for that alone.

    Args:
        captured: has the values that the verified calls gave.
        arguments: names of forward's positional arguments.
        declared: forward as the reference declares it, for arguments that no call gave; None: not known.
        known: names that expressions may use.
    """
    given = dict(_specialised(captured))
    tensors = {int(p.source) for p in captured.placeholders if p.kind == "input"}
    found = {name: _literal(given[i]) for i, name in enumerate(arguments) if i in given}
    for name, default in _defaults(declared) if declared is not None else ():
        is_given = name in arguments and arguments.index(name) in tensors | set(given)
        names = {n.id for n in ast.walk(default) if isinstance(n, ast.Name)}
        if not is_given and names <= known:
            found[name] = unparse(default)
    return {name: text for name, text in found.items() if text}


def equals(name: str, text: str) -> str:
    """Return the condition that an argument is a value: of its type, too, as 2.0 equals 2."""
    if text in ("None", "True", "False"):
        return f"{name} is {text}"
    return f"type({name}) is type({text}) and {name} == {text}"


def _specialised(captured: Captured) -> Iterator[tuple[int, object]]:
    """Yield position and value of each argument of forward that is no tensor."""
    position = 0
    for node in captured.graph.nodes:
        if node.op != "placeholder":
            continue
        placeholder = captured.placeholder(node.name)
        if placeholder is None:
            yield position, node.meta.get("val")
        elif placeholder.kind == "input":
            assert placeholder.source == position
        position += placeholder is None or placeholder.kind == "input"


def _literal(value: object) -> str:
    """Return a value as text; empty where none gives it back."""
    text = f'float("{value}")' if isinstance(value, float) and value in (float("inf"), -float("inf")) else ""
    is_plain = value is None or (isinstance(value, bool | int | float | str) and value == value)
    return text or (repr(value) if is_plain else "")


def _defaults(declared: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that have a default, with it."""
    positional = [*declared.posonlyargs, *declared.args]
    if declared.defaults:
        last = positional[-len(declared.defaults) :]
        yield from ((a.arg, value) for a, value in zip(last, declared.defaults, strict=True))
    for argument, value in zip(declared.kwonlyargs, declared.kw_defaults, strict=True):
        if value is not None:
            yield argument.arg, value
