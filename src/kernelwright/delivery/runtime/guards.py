"""The checks before every call, generated as flat Python for one kernel: a few comparisons, no loops.

``forward`` is what a delivered module runs. Eager calls compare what the verdict rests on and call the kernel
directly. Under ``torch.compile`` and ``torch.export`` the same conditions are written over the module's own
attributes (``traced``), so that the tracer guards on them, and the kernel is called through its operator.
"""

import copy
import hashlib
import inspect
import keyword
import linecache
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_modules
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from .aliases import INPUT, RESULT, without_views
from .calls import SOMEWHERE, NotVerifiedError
from .contract import (
    Case,
    Contract,
    Part,
    Size,
    TensorFacts,
    current_device,
    is_apart,
    is_dense,
    is_settled,
    same_attribute,
    tells_format,
    written_weights,
)
from .described import OWN
from .structure import Container, Fixed, Structure, TensorAt, is_same

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Hooks of inner modules, which a kernel does not run."""
NOTHING: Mapping[str, str] = MappingProxyType({})
GLOBAL_HOOKS = tuple(getattr(torch_modules, f"_global{name}") for name in HOOKS)


@dataclass(frozen=True)
class Held:
    """One thing of a module that a check refers to."""

    kind: str
    """``owner``, ``length``, ``others``, ``attribute``, ``child``, ``kind``, ``tensor``, ``version``,
    ``address``, ``hidden``, ``states`` or ``referred``; not the dicts of a module, in whose place others may
    be put."""
    path: str
    name: str = ""


@dataclass(frozen=True)
class Guards:
    """The generated functions of one kernel, for one class."""

    forward: Callable[..., Any]
    traced: Callable[..., Any]
    layout: tuple[Held, ...]
    """What ``state.bound`` holds behind the call, in order."""
    traced_layout: tuple[Held, ...]
    """What ``state.seen`` holds, in order."""
    source: str


def version_of(tensor: torch.Tensor) -> float:
    """Return how often a tensor was written to in place; NaN, equal to none, where that is not counted."""
    return math.nan if tensor.is_inference() else tensor._version


def needs_gradients(tensors: Iterable[torch.Tensor]) -> bool:
    """Say whether one of them requires gradients."""
    return any(tensor.requires_grad for tensor in tensors)


def has_only_device(kinds: Collection[str]) -> bool:
    """Say whether the only torch function modes are default devices of these kinds."""
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return all(isinstance(mode, DeviceContext) and mode.device.type in kinds for mode in modes)


def is_sure(condition: bool | torch.SymBool) -> bool:
    """Say whether a condition on sizes holds whatever those are that an export leaves open."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # lazy: imports much

    return statically_known_true(condition)


State = tuple[torch.Tensor, TensorFacts, int, float]
"""A tensor as it was: its facts, its address and its version."""


def are_as_before(states: Iterable[State]) -> bool:
    """Say whether tensors are what they were, lie where they lay and were not written to."""
    return all(
        tensor.data_ptr() == address
        and version_of(tensor) == version
        and tensor.shape == facts.shape
        and tensor.stride() == facts.stride
        and str(tensor.dtype) == f"torch.{facts.dtype}"
        for tensor, facts, address, version in states
    )


def generate(
    contract: Contract,
    original: type[nn.Module],
    operators: Sequence[Callable[..., Any]],
    otherwise: Callable[..., Any],
) -> Guards:
    """Return the functions for a contract.

    Args:
        contract: what must hold.
        original: whose forward runs where it does not.
        operators: the kernel as custom operators, by their numbers.
        otherwise: finds out why a check failed, and runs what is right then.
    """
    return _Generator(contract, original, operators, otherwise).guards()


class _Generator:
    def __init__(
        self,
        contract: Contract,
        original: type[nn.Module],
        operators: Sequence[Callable[..., Any]],
        otherwise: Callable[..., Any],
    ) -> None:
        self.contract = contract
        signature = inspect.signature(original.forward)
        self.parameters = list(signature.parameters.values())[1:]
        self.local = {p.name: f"a{number}" for number, p in enumerate(self.parameters)}
        """Parameter of forward -> variable: a name of the user's hides none of ours."""
        self.numbers = {path: number for number, path in enumerate(contract.parts)}
        """Submodule -> what its variables begin with."""
        self.layout: list[Held] = []
        self.traced_layout: list[Held] = []
        self.names: dict[str, Any] = {
            "Tensor": torch.Tensor,
            "torch": torch,
            "original": original.forward,
            **{f"operator{number}": operator for number, operator in enumerate(operators)},
            "otherwise": otherwise,
            "is_same": is_same,
            "is_apart": is_apart,
            "same_attribute": same_attribute,
            "version_of": version_of,
            "NotVerifiedError": NotVerifiedError,
            "SOMEWHERE": SOMEWHERE,
            "needs_gradients": needs_gradients,
            "are_as_before": are_as_before,
            "forward_ad": forward_ad,
            "is_dynamo_compiling": torch.compiler.is_dynamo_compiling,
            "is_exporting": torch.compiler.is_exporting,
            "is_in_onnx_export": torch.onnx.is_in_onnx_export,
            "is_sure": is_sure,
            "PLAIN": (torch.Tensor, nn.Parameter),
            "copysign": math.copysign,
            "is_any_autocast": torch._C._is_any_autocast_enabled,
            "is_grad_enabled": torch.is_grad_enabled,
            "n_dispatch": torch._C._len_torch_dispatch_stack,
            "n_function": torch._C._len_torch_function_stack,
            "tracing": torch._C._get_tracing_state,
            "has_only_device": has_only_device,
            "functorch": torch._C._functorch.peek_interpreter_stack,
            "is_autocast": torch.is_autocast_enabled,
            "default_dtype": torch.get_default_dtype,
            "n_threads": torch.get_num_threads,
        }

    def constant(self, value: Any) -> str:
        """Return a name for a value."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def held(self, kind: str, path: str, name: str = "") -> str:
        """Return the variable of something that ``state.bound`` holds."""
        wanted = Held(kind, path, name)
        if wanted not in self.layout:
            self.layout.append(wanted)
        return f"v{self.layout.index(wanted)}"

    # -- source ------------------------------------------------------------------------------------

    def guards(self) -> Guards:
        """Generate and compile."""
        unchanged = self._unchanged()  # fills the layout
        given = list(self.local.values())
        taken = f"{', '.join(given)}{',' if len(given) == 1 else ''}"
        names = "".join(f"{name}, " for name in self.local)
        lines = [
            f"def arguments({self._signature()}):",
            f"    return ({names})",
            "",
            "def forward(self, *args, **kwargs):",
            "    if is_dynamo_compiling():",
            "        return traced(self, args, kwargs)",
            "    try:",
            f"        {f'({taken}) = ' if given else ''}arguments(*args, **kwargs)",
            "    except TypeError:",
            "        return original(self, *args, **kwargs)  # which says what is wrong",
            "    case = -1",
            "    try:",
            "        own = self.__dict__",
            f"        state = own[{OWN!r}]",
            f"        (call, {''.join(f'v{i}, ' for i in range(len(self.layout)))}) = state.bound",
            f"        if {self._ordinary()}:",
            f"            if {unchanged}:",
            "                is_grad = is_grad_enabled()",
        ]
        for number, case in enumerate(self.contract.cases):
            word = "if" if number == 0 else "elif"
            lines += [
                f"                {word} {self._case(case)}:",
                f"                    case = {self._way(case, number)}",
            ]
        lines += [
            "    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):",
            "        case = -1",
        ]
        for number, case in enumerate(self.contract.cases):
            lines += [
                f"    if case == {number}:",
                "        state.counts.kernel_calls += 1",
                "        n_threads()  # a thread that called no torch before runs on as many, too",
                f"        out = call({', '.join(self._given(case))})",
                *(f"        {line}" for line in self._result(case)),
            ]
            if self.contract.gradients is not None:
                lines += [
                    f"    if case == {number + len(self.contract.cases)}:",
                    *self._recorded(case, number),
                ]
        lines += ["    return otherwise(self, args, kwargs)", "", *self._traced(taken if given else "")]
        source = "\n".join(lines) + "\n"
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]  # the same for the same source
        file = f"<kernelwright guards of {self.contract.title} {digest}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        exec(compile(source, file, "exec"), self.names)
        return Guards(
            self.names["forward"], self.names["traced"], tuple(self.layout), tuple(self.traced_layout), source
        )

    def _signature(self) -> str:
        """The parameters of the original's forward, as they were declared."""
        parts, was_keyword = [], False
        last_positional = max(
            (i for i, p in enumerate(self.parameters) if p.kind is p.POSITIONAL_ONLY), default=-1
        )
        for number, parameter in enumerate(self.parameters):
            if parameter.kind is parameter.KEYWORD_ONLY and not was_keyword:
                if not any(p.kind is p.VAR_POSITIONAL for p in self.parameters):
                    parts.append("*")
                was_keyword = True
            is_any = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            stars = ("*" if parameter.kind is parameter.VAR_POSITIONAL else "**") if is_any else ""
            default = ""
            if parameter.default is not parameter.empty:
                default = f"={self.constant(parameter.default)}"
            parts.append(f"{stars}{parameter.name}{default}")
            if number == last_positional:
                parts.append("/")
        return ", ".join(parts)

    def _ordinary(self) -> str:
        hooks = " or ".join(self.constant(hooks) for hooks in GLOBAL_HOOKS)
        dtype = self.constant(getattr(torch, self.contract.default_dtype))
        devices = self.constant(self.contract.devices)
        return (
            f"not n_dispatch() and (not n_function() or has_only_device({devices}))"
            " and functorch() is None and tracing() is None"
            f" and forward_ad._current_level < 0 and default_dtype() is {dtype} and not ({hooks})"
            " and not is_any_autocast()"
        )

    def _unchanged(self) -> str:
        """What a module holds is what it held when it was last looked at whole."""
        terms = [f"id(own) == {self.held('owner', '')}", f"type(self) is {self.held('kind', '')}"]
        for path, part in self.contract.parts.items():
            parent, _, leaf = path.rpartition(".")
            if path and self._is_first(parent):
                terms.append(f"{self._holder(parent, '_modules')}[{leaf!r}] is {self.held('child', path)}")
            if part.same_as is None:
                terms += self._part(path, part)
        for name, weight in self.contract.weights.items():
            value = self._weight(name)
            path, _, leaf = name.rpartition(".")
            if self._is_first(path):
                holder = self._holder(path, "_parameters" if weight.is_parameter else "_buffers")
                terms.append(f"{holder}[{leaf!r}] is {value}")
            if weight.same_as is None:
                terms.append(self._facts(value, weight.facts, is_weight=True))
                if self.contract.is_frozen:
                    terms.append(f"{value}.data_ptr() == {self.held('address', path, leaf)}")
                    terms.append(f"version_of({value}) == {self.held('version', path, leaf)}")
        for name, constant in self.contract.constants.items():
            path, _, leaf = name.rpartition(".")
            holder = self._holder(path, "_buffers") if constant.is_buffer else self._own(path)
            terms.append(f"{holder}[{leaf!r}] is {self._weight(name)}")
            terms.append(self._facts(self._weight(name), constant.facts))
            terms.append(f"{self._weight(name)}.data_ptr() == {self.held('address', path, leaf)}")
            terms.append(f"version_of({self._weight(name)}) == {self.held('version', path, leaf)}")
        if self.contract.may_hide_tensors:
            self.held("hidden", "")  # which the cases compare
            terms.append(f"(not {(states := self.held('states', ''))} or are_as_before({states}))")
        return " and ".join(terms)

    def _is_first(self, path: str) -> bool:
        """The submodule stands first under this path; what it holds is compared there."""
        return self.contract.parts[path].same_as is None

    def _part(self, path: str, part: Part) -> list[str]:
        """One submodule: its class, attributes, and what it holds, None among it."""
        own, terms = self._own(path), []
        if path:
            terms.append(f"type({self.held('child', path)}) is {self.held('kind', path)}")
            terms.append(f"len({own} := {self.held('child', path)}.__dict__) == {self.held('length', path)}")
        else:
            terms.append(f"len(own) == {self.held('length', path)}")
        others = self.held("others", path)
        terms.append(f"(not {others} or {own}.keys() >= {others})")
        for name in {**part.attributes, **part.opaque}:
            terms.append(f"{own}[{name!r}] is {self.held('attribute', path, name)}")
            value = part.attributes.get(name)
            if not _may_change(value):
                continue
            if _has_sets(value):  # in no order that repr would show
                terms.append(f"same_attribute({own}[{name!r}], {self.constant(copy.deepcopy(value))})")
            else:  # 2.0 equals 2, and computes in another type
                terms.append(f"{own}[{name!r}] == {self.constant(copy.deepcopy(value))}")
                terms.append(f"repr({own}[{name!r}]) == {self.constant(repr(value))}")
        return [*terms, *self._held_in(path, part)]

    def _held_in(self, path: str, part: Part) -> list[str]:
        """A submodule has no hooks and holds as many as before, in the same order where that may matter."""
        own, terms = self._own(path), []
        empty = [f"{own}[{hooks!r}]" for hooks in HOOKS if path]
        for holder, count in self.contract.entries(path).items():
            held, nothing = self._holder(path, holder), part.nothing.get(holder, ())
            names = [*part.order.get(holder, ())]
            order = self.constant(names) if names else ""
            if order and not nothing:
                terms.append(f"[*({held} := {own}[{holder!r}])] == {order}")
            elif count:
                terms.append(f"len({held} := {own}[{holder!r}]) == {count}")
            else:
                empty.append(f"{own}[{holder!r}]")
            if order and nothing:
                terms.append(f"[name for name in {held} if {held}[name] is not None] == {order}")
            terms += [f"{held}[{name!r}] is None" for name in nothing]
        return [*terms, f"not ({' or '.join(empty)})"] if empty else terms

    def _own(self, path: str) -> str:
        """Return the variable of a submodule's ``__dict__``."""
        return f"own{self.numbers[path]}" if path else "own"

    def _holder(self, path: str, name: str) -> str:
        """Return the variable of the dict in which a submodule has parameters, buffers or submodules."""
        return f"{self._own(path)}{name}"

    def _weight(self, name: str) -> str:
        path, _, leaf = name.rpartition(".")
        return self.held("tensor", path, leaf)

    def _facts(
        self,
        value: str,
        facts: TensorFacts,
        extents: Mapping[str, str] = NOTHING,
        *,
        is_weight: bool = False,
    ) -> str:
        """A tensor's facts; slower code decides about strides of empty tensors, which mean nothing."""
        device = f"{value}.is_{facts.device}"
        if not hasattr(torch.Tensor, f"is_{facts.device}"):
            device = f"{value}.device.type == {facts.device!r}"
        if (current := current_device(facts.device)) is not None:
            device += f" and {value}.get_device() == {self.constant(current)}()"
        dtype = self.constant(getattr(torch, facts.dtype))
        numbers = [size for size in facts.shape if isinstance(size, int)]
        is_fixed = len(numbers) == len(facts.shape)
        shape = self.constant(torch.Size(numbers)) if is_fixed else _sizes(facts.shape, extents)
        same = f"{value}.shape == {shape} and {value}.dtype is {dtype} and {device}"
        if is_weight and is_dense(facts) and not tells_format(facts.shape):
            same += f" and {value}.is_contiguous()"
        else:
            same += self._strides(value, facts, extents)
        if 0 not in facts.shape:
            same += f" and {value}.data_ptr()"  # zero tensors, those of functorch, and freed ones have none
        if _may_negate(facts):
            same += f" and not {value}.is_neg()"
        return f"{same} and not {value}.is_conj()" if "complex" in facts.dtype else same

    def _strides(self, value: str, facts: TensorFacts, extents: Mapping[str, str]) -> str:
        """Those of axes of size 1 mean nothing: a slice of one row has others than a row has."""
        exact = f"{value}.stride() == {_sizes(facts.stride, extents)}"
        if 1 not in facts.shape:
            return f" and {exact}"
        if tells_format(facts.shape) and not extents:
            return f" and ({exact} or {self.constant(facts.lies_like)}({value}))"
        return "".join(
            f" and {value}.stride({axis}) == {_size(stride, extents)}"
            for axis, (size, stride) in enumerate(zip(facts.shape, facts.stride, strict=True))
            if size != 1
        )

    def _case(self, case: Case) -> str:
        """A call is one that was verified, and needs no gradients that the kernel does not compute."""
        terms, leaves = self._matching(case, is_exact=True)
        extents = _extents(case, leaves)
        terms += [f"{span.low} <= {extents[span.name]} <= {span.high}" for span in case.spans]
        terms += [self._facts(leaf, facts, extents) for leaf, facts in zip(leaves, case.inputs, strict=True)]
        written = written_weights(self.contract)
        terms += [f"is_apart({leaf}, {self._weight(name)})" for leaf in leaves for name in written]
        terms.append(f"not (is_grad and {self._refused(leaves, self._weight)})")
        return " and ".join(terms)

    def _refused(self, leaves: Sequence[str], weight: Callable[[str], str]) -> str:
        """Gradients are needed that no kernel computes; ``weight`` gives the expression of a held tensor."""
        known = self.contract.gradients
        computed = {leaves[i] for i in known.inputs} if known is not None else set()
        others = [*(leaf for leaf in leaves if leaf not in computed)]
        others += [weight(name) for name in self.contract.without_gradient]
        terms = [f"{tensor}.requires_grad" for tensor in others]
        terms += [hidden] if (hidden := self._hidden(weight)) else []
        needed = [f"{weight(name)}.requires_grad" for name in known.parameters] if known is not None else []
        if needed:  # all of them, or none of anything
            wanted = " or ".join([*(f"{leaf}.requires_grad" for leaf in sorted(computed)), *needed])
            terms.append(f"(({wanted}) and not ({' and '.join(needed)}))")
        return f"({' or '.join(terms) or 'False'})"

    def _hidden(self, weight: Callable[[str], str]) -> str:
        """Tensors inside attributes of other kinds need gradients; no text where there are none."""
        if not self.contract.may_hide_tensors:
            return ""
        if weight is _path:
            return "self._kernelwright_needs_hidden()"
        return f"needs_gradients({self.held('hidden', '')})"

    def _way(self, case: Case, number: int) -> str:
        """A case's number, or another one where its gradients are computed by a backward kernel."""
        known = self.contract.gradients
        if known is None:
            return str(number)
        leaves = self._matching(case, is_exact=True)[1]
        tensors = [*(leaves[i] for i in known.inputs), *map(self._weight, known.parameters)]
        wanted = " or ".join(f"{tensor}.requires_grad" for tensor in tensors)
        return f"{number + len(self.contract.cases)} if is_grad and ({wanted}) else {number}"

    def _recorded(self, case: Case, number: int) -> list[str]:
        """Call the kernel through its operator, which autograd records."""
        leaves = self._matching(case, is_exact=True)[1]
        weights = [self._weight(n) for n, weight in self.contract.weights.items() if weight.same_as is None]
        return [
            f"        out = {self._operator(number)}({', '.join([*leaves, *weights])})",
            f"        return {self._built(case.result, _outs(case))}",
        ]

    def _operator(self, case: int) -> str:
        return f"operator{self.contract.operators[case]}"

    def _matching(self, case: Case, *, is_exact: bool) -> tuple[list[str], list[str]]:
        """Return the conditions of a call's structure, and expressions of its tensors."""
        terms: list[str] = []
        leaves: dict[int, str] = {}
        for parameter in self.parameters:
            name = self.local[parameter.name]
            if parameter.name in case.arguments:
                self._match(name, case.arguments[parameter.name], terms, leaves, is_exact=is_exact)
            elif parameter.name in case.defaults:
                self._match(name, case.defaults[parameter.name], terms, leaves, is_exact=is_exact)
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                terms.append(f"not {name}")
            elif is_exact or not is_settled(parameter.default):
                terms.append(f"{name} is {self.constant(parameter.default)}")
            else:
                self._match(name, Fixed(parameter.default), terms, leaves, is_exact=is_exact)
        return terms, [leaves[position] for position in sorted(leaves)]

    def _match(
        self, value: str, structure: Structure, terms: list[str], leaves: dict[int, str], *, is_exact: bool
    ) -> None:
        if isinstance(structure, TensorAt):
            is_one = f"(type({value}) in PLAIN or exporting and isinstance({value}, Tensor))"
            terms.append(f"type({value}) is Tensor" if is_exact else is_one)
            leaves[structure.position] = value
        elif isinstance(structure, Fixed):
            fixed = structure.value
            if fixed is None or isinstance(fixed, bool):
                terms.append(f"{value} is {fixed}")
            elif isinstance(fixed, float) and is_exact:
                terms.append(f"is_same({value}, {self.constant(fixed)})")
            else:
                terms.append(f"type({value}) is {self.constant(type(fixed))}")
                terms.append(f"{value} == {self.constant(fixed)}")
                if isinstance(fixed, float) and fixed == 0:  # which equals the other zero
                    terms.append(f"copysign(1.0, {value}) == {math.copysign(1.0, fixed)}")
        else:
            self._match_items(value, structure, terms, leaves, is_exact=is_exact)

    def _match_items(
        self, value: str, structure: Container, terms: list[str], leaves: dict[int, str], *, is_exact: bool
    ) -> None:
        kind = structure.type
        terms.append(f"type({value}) is {self.constant(kind)}")
        is_mapping = issubclass(kind, dict) and not hasattr(kind, "__dataclass_fields__")
        is_object = not is_mapping and hasattr(kind, "__dataclass_fields__")
        if is_mapping:  # in this order, which forward may go by
            terms.append(f"[*{value}] == {list(structure.keys)!r}")
            kinds = [type(key) for key in structure.keys]
            if {*kinds} - {str}:  # 1, 1.0 and True are equal
                terms.append(f"[*map(type, {value})] == {self.constant(kinds)}")
        elif not is_object:
            terms.append(f"len({value}) == {len(structure.keys)}")
        for key, item in zip(structure.keys, structure.items, strict=True):
            inner = f"{value}.{key}" if is_object else f"{value}[{key!r}]"
            self._match(inner, item, terms, leaves, is_exact=is_exact)

    def _given(self, case: Case) -> list[str]:
        """Return what the kernel is called with."""
        if self.contract.is_flat:
            return self._matching(case, is_exact=True)[1]
        names = [f"*{self.local[n]}" if n == self.contract.spread else self.local[n] for n in case.arguments]
        return sorted(names, key=lambda name: name.startswith("*"))

    def _result(self, case: Case) -> list[str]:
        """Give the kernel's result the original's structure."""
        self.names.setdefault("tensors_of", _tensors_of())
        is_bare, members = isinstance(case.result, TensorAt), _members(case)
        if is_bare and any(case.aliases):
            return [f"return {self._results(case, self._weight, ['out'])[0]}"]
        as_is = ["type(out) is Tensor"] if is_bare else ["type(out) is tuple", f"len(out) == {len(members)}"]
        as_is += [f"type({member}) is Tensor" for member in members if not is_bare]
        built = self._built(case.result, self._results(case, self._weight, members))
        is_kept = is_bare or (_is_flat_tuple(case.result) and not any(case.aliases))
        return [
            f"if not ({' and '.join(as_is)}):",
            "    out = tensors_of(out)",
            *(["else:", "    return out"] if is_kept else []),
            f"return {built}",
        ]

    def _results(self, case: Case, held: Callable[[str], str], outs: Sequence[str]) -> list[str]:
        """Return expressions of a case's results, given those of the kernel's own; ``held`` as ``weight``."""
        sources: dict[str, Sequence[str]] = {INPUT: self._matching(case, is_exact=True)[1], RESULT: outs}
        made = list(outs)
        for number, alias in enumerate(case.aliases):
            if alias is not None:
                place = alias.place
                made[number] = alias.written(
                    held(place) if isinstance(place, str) else sources[alias.of][place]
                )
        return made

    # -- for tracers -------------------------------------------------------------------------------

    def _traced(self, taken: str) -> list[str]:
        lines = [
            "def traced(self, args, kwargs):",
            f"    {f'({taken}) = ' if taken else ''}arguments(*args, **kwargs)",
            "    exporting = is_exporting()",
            f"    if {self._holds()}:",
        ]
        weights = [_path(name) for name, weight in self.contract.weights.items() if weight.same_as is None]
        for number, case in enumerate(self.contract.cases):
            terms, leaves = self._matching(case, is_exact=False)
            terms += [f"{x} is not {_path(name)}" for x in leaves for name in written_weights(self.contract)]
            terms.append(f"not (is_grad_enabled() and {self._refused(leaves, _path)})")
            for leaf, facts in zip(leaves, case.inputs, strict=True):
                terms.append(_traced_kind(leaf, facts))
            terms += self._traced_extents(case, leaves)
            lines += [
                f"        if {' and '.join(terms)}:",
                f"            out = {self._operator(number)}({', '.join([*leaves, *weights])})",
                f"            return {self._built(case.result, self._traced_results(case))}",
            ]
        return [
            *lines,
            f"    if (SOMEWHERE['strict'] or self.{OWN}.counts.strict) and self._kernelwright_is_strict():",
            "        raise NotVerifiedError('the original would run; call it uncompiled to see why')",
            "    return original(self, *args, **kwargs)",
        ]

    def _traced_extents(self, case: Case, leaves: Sequence[str]) -> Iterator[str]:
        """Yield the conditions of a call's sizes and strides.

        An export may tie sizes to each other that one name stands for, as the original's own operations do.
        """
        extents = _extents(case, leaves)
        for span in case.spans:
            yield _sure(f"{extents[span.name]} >= {span.low}")
            yield _sure(f"{extents[span.name]} <= {span.high}")
        facts_of = [*zip(leaves, case.inputs, strict=True)]
        for leaf, facts in facts_of:
            for axis, size in enumerate(facts.shape):
                condition = f"{leaf}.shape[{axis}] == {_size(size, extents)}"
                yield _sure(condition) if isinstance(size, int) else condition
        for leaf, facts in facts_of:
            yield from map(_sure, _traced_strides(leaf, facts, extents))

    def _traced_results(self, case: Case) -> list[str]:
        """Return expressions of a case's results; a graph would hold the places of views as they are now."""
        if self.contract.gradients is not None:  # which the operator takes
            return _outs(case)
        return self._results(replace(case, aliases=without_views(case.aliases)), _path, _outs(case))

    def _holds(self) -> str:
        """The module is as verified, in words that tracers understand and guard.

        ``_kernelwright_holds`` looks at everything while the tracer is at work. The rest says again what may
        change later, for a graph that is already there.
        """
        devices = self.constant(self.contract.devices)
        terms = [
            "self._kernelwright_holds()",
            # an export has a mode of its own
            f"(exporting or not n_function() or has_only_device({devices}))",
            "not is_in_onnx_export()",
        ]
        for path, part in self.contract.parts.items():
            if part.same_as is not None:
                terms.append(f"{_path(path)} is {_path(part.same_as)}")
            else:
                terms += self._traced_part(path, part)
        if self.contract.may_hide_tensors:
            terms += self._referred()
        for name in self.contract.constants:
            path, _, leaf = name.rpartition(".")
            terms.append(f"{_path(name)} is self.{OWN}.seen[{self.seen('tensor', path, leaf)}]")
        for name, weight in self.contract.weights.items():
            if weight.same_as is None:
                terms.append(_traced_kind(_path(name), weight.facts))
                sizes = enumerate(weight.facts.shape)
                terms += [f"{_path(name)}.shape[{axis}] == {size}" for axis, size in sizes]
                terms += _traced_strides(_path(name), weight.facts)
            else:
                terms.append(f"{_path(name)} is {_path(weight.same_as)}")
        return " and ".join([*terms, *(f"not is_autocast({d!r})" for d in self.contract.devices)])

    def _referred(self) -> list[str]:
        """Submodules and weights that attributes refer to are still the module's own; None: none does."""
        terms = []
        for path, part in self.contract.parts.items():
            if path and part.same_as is None:
                seen = f"self.{OWN}.seen[{self.seen('referred', path)}]"
                terms.append(f"({seen} is None or {_path(path)} is {seen})")
        for name, weight in self.contract.weights.items():
            path, _, leaf = name.rpartition(".")
            if weight.same_as is None:
                seen = f"self.{OWN}.seen[{self.seen('referred', path, leaf)}]"
                terms.append(f"({seen} is None or {_path(name)} is {seen})")
        return terms

    def _traced_part(self, path: str, part: Part) -> list[str]:
        own, terms = _path(path), []
        seen = f"self.{OWN}.seen"
        if path:
            terms.append(f"type({own}) is {seen}[{self.seen('kind', path)}]")
            terms += [f"len({own}.{hooks}) == 0" for hooks in HOOKS]
        for name, value in part.attributes.items():
            if isinstance(value, bool) or value is None:
                terms.append(f"{_member(own, name)} is {value}")
            elif _is_compared(value):
                terms.append(f"{_member(own, name)} == {self.constant(copy.deepcopy(value))}")
            else:
                terms.append(f"{_member(own, name)} is {seen}[{self.seen('attribute', path, name)}]")
        for name in (name for name in part.opaque if name not in part.attributes):
            terms.append(f"{_member(own, name)} is {seen}[{self.seen('attribute', path, name)}]")
        for holder, count in self.contract.entries(path).items():
            nothing, order = part.nothing.get(holder, ()), part.order.get(holder, ())
            terms.append(f"len({own}.{holder}) == {count}")
            terms += [f"{own}.{holder}[{name!r}] is None" for name in nothing]
            if order:
                terms.append(f"[name for name in {own}.{holder} if name not in {nothing!r}] == {[*order]!r}")
        return terms

    def seen(self, kind: str, path: str, name: str = "") -> int:
        """Return the place in ``state.seen`` of something that tracers compare by identity."""
        wanted = Held(kind, path, name)
        if wanted not in self.traced_layout:
            self.traced_layout.append(wanted)
        return self.traced_layout.index(wanted)

    def _built(self, part: Structure, results: Sequence[str]) -> str:
        """Return an expression that builds a structure of results."""
        if isinstance(part, TensorAt):
            return results[part.position]
        if not isinstance(part, Container):
            return self.constant(part.value) if part.value is not None else "None"
        items = [self._built(item, results) for item in part.items]
        if part.type is list:
            return f"[{', '.join(items)}]"
        if part.type is tuple:
            return f"({''.join(f'{item}, ' for item in items)})"
        if part.type is dict:
            return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(part.keys, items, strict=True)) + "}"
        kind = self.constant(part.type)
        if issubclass(part.type, tuple):
            return f"{kind}({', '.join(items)})"
        if issubclass(part.type, dict) and not hasattr(part.type, "__dataclass_fields__"):
            return f"{kind}([{', '.join(f'({k!r}, {v})' for k, v in zip(part.keys, items, strict=True))}])"
        return f"{kind}({', '.join(f'{k}={v}' for k, v in zip(part.keys, items, strict=True))})"


def _sure(condition: str) -> str:
    """An export must not tie a size that its user leaves open: there only what holds for all sizes does."""
    return f"(is_sure({condition}) if exporting else {condition})"


def _traced_kind(value: str, facts: TensorFacts) -> str:
    """Return the conditions of a tensor that need no sizes."""
    return (
        f"{value}.dim() == {len(facts.shape)} and {value}.dtype == torch.{facts.dtype}"
        f" and {value}.device.type == {facts.device!r}"
    )


def _traced_strides(value: str, facts: TensorFacts, extents: Mapping[str, str] = NOTHING) -> Iterator[str]:
    """Yield the conditions of a tensor's strides, where they mean something."""
    for axis, (size, stride) in enumerate(zip(facts.shape, facts.stride, strict=True)):
        if 0 not in facts.shape and (size != 1 or tells_format(facts.shape)):
            yield f"{value}.stride({axis}) == {_size(stride, extents)}"


def _members(case: Case) -> list[str]:
    """Return expressions of the kernel's results in ``out``, which is a sequence of them."""
    return [f"out[{i}]" for i in range(len(case.outputs))]


def _outs(case: Case) -> list[str]:
    """The same where ``out`` is a tensor alone if there is but one."""
    return ["out"] if len(case.outputs) == 1 else _members(case)


def _is_flat_tuple(structure: Structure) -> bool:
    is_tuple = isinstance(structure, Container) and structure.type is tuple
    return is_tuple and all(isinstance(item, TensorAt) for item in cast(Container, structure).items)


def _may_negate(facts: TensorFacts) -> bool:
    """True where a tensor may be a view that negates: every other number of a complex tensor."""
    is_every_one = any(
        isinstance(size, int) and size > 1 and step == 1
        for size, step in zip(facts.shape, facts.stride, strict=True)
    )
    return getattr(torch, facts.dtype).is_floating_point and not is_every_one


def _may_change(value: Any) -> bool:
    """True for a plain value that may change in place."""
    return isinstance(value, list | dict | set) or (isinstance(value, tuple) and any(map(_may_change, value)))


def _has_sets(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_sets, (*value, *value.values())))
    return isinstance(value, set | frozenset) or (
        isinstance(value, list | tuple) and any(map(_has_sets, value))
    )


def _is_compared(value: Any) -> bool:
    """True for what tracers compare by value: numbers, texts, and what holds nothing else."""
    if isinstance(value, dict):
        return all(isinstance(key, int | str) for key in value) and all(map(_is_compared, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_compared, value))
    return isinstance(value, int | float | str) or value is None


def _extents(case: Case, leaves: Sequence[str]) -> dict[str, str]:
    """Return where a call's tensors have the extents that may vary, by name."""
    return {span.name: f"{leaves[span.position]}.shape[{span.axis}]" for span in case.spans}


def _sizes(sizes: Sequence[Size], extents: Mapping[str, str]) -> str:
    return f"({''.join(f'{_size(size, extents)}, ' for size in sizes)})"


def _size(size: Size, extents: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda name: extents[name[0]], str(size))


def _path(name: str) -> str:
    """Return the Python expression of something inside the module."""
    text = "self"
    for part in name.split(".") if name else ():
        text = _member(text, part)
    return text


def _member(value: str, name: str) -> str:
    """Return the Python expression of an object's attribute, whatever its name is."""
    is_word = name.isidentifier() and not keyword.iskeyword(name)
    return f"{value}.{name}" if is_word else f"getattr({value}, {name!r})"


def _tensors_of() -> Callable[[Any], list[torch.Tensor]]:
    from .kernel import tensors_of

    return tensors_of
