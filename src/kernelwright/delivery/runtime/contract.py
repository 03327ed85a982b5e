"""What a verdict rests on: the facts that must hold for the kernel to run in the original's place."""

import contextlib
import copy
import functools
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from types import CodeType
from typing import Any, TypeAlias

import torch
from torch import nn

from .aliases import Alias
from .aliases import from_data as alias_from_data
from .classes import ORIGINAL, edition, functions_in
from .described import code_of, description_of, digest_of, not_held, tensors_inside
from .order import HOLDERS, order_of, ordered_parts
from .structure import (
    Structure,
    UnstructuredError,
    from_data,
    is_plain,
    name_of,
    plain_from_data,
    plain_to_data,
    put_together,
    take_apart,
    to_data,
)

Size: TypeAlias = int | str
"""A number, or an expression of the names of a case's spans, such as ``(512 * extent_batch)``."""


@dataclass(frozen=True)
class TensorFacts:
    """What is known of a tensor besides its values."""

    shape: tuple[Size, ...]
    stride: tuple[Size, ...]
    dtype: str
    device: str

    def at(self, extents: Mapping[str, int]) -> "TensorFacts":
        """Return the facts with numbers for all sizes."""
        shape, stride = (tuple(_number(size, extents) for size in part) for part in (self.shape, self.stride))
        return TensorFacts(shape, stride, self.dtype, self.device)

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "TensorFacts":
        """Return the facts of a tensor."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(tuple(tensor.shape), tuple(tensor.stride()), dtype, tensor.device.type)

    def lies_like(self, tensor: torch.Tensor) -> bool:
        """Say whether a tensor of this shape has strides that mean the same."""
        return same_strides(self.shape, tensor.stride(), self.stride)

    def difference(self, tensor: torch.Tensor) -> tuple[str, str] | None:
        """Return in what a tensor differs, as a kind and in words; None where it does not."""
        if tensor.device.type != self.device:
            return "device", f"is on {tensor.device}, verified on {self.device}"
        if (current := current_device(self.device)) is not None and tensor.device.index != current():
            return "device", f"is on {tensor.device}, and kernels start on {self.device}:{current()}"
        if str(tensor.dtype) != f"torch.{self.dtype}":
            return "dtype", f"has type {tensor.dtype}, verified with torch.{self.dtype}"
        if tuple(tensor.shape) != self.shape:
            return "shape", f"has shape {tuple(tensor.shape)}, verified with {self.shape}"
        if tensor.layout is not torch.strided:
            return "layout", f"has layout {tensor.layout}, verified with torch.strided"
        if tensor.is_neg() or tensor.is_conj():
            return "layout", "is a view that negates or conjugates"
        if not self.lies_like(tensor):
            return "layout", f"has strides {tuple(tensor.stride())}, verified with {self.stride}"
        return None


def _number(size: Size, extents: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else eval(_code(size), {"__builtins__": {}}, dict(extents))


@functools.cache
def _code(size: str) -> CodeType:
    return compile(size, "<size>", "eval")


def current_device(kind: str) -> Callable[[], int] | None:
    """Return what tells on which device of a kind kernels start; None where devices have no numbers."""
    devices = getattr(torch, kind, None)
    return getattr(devices, "current_device", None) if hasattr(devices, "device") else None


def is_dense(facts: TensorFacts) -> bool:
    """True when the elements lie one after the other, the last axis first."""
    step = 1
    for size, stride in zip(reversed(facts.shape), reversed(facts.stride), strict=True):
        if not isinstance(size, int) or (stride != step and size != 1):
            return False
        step *= size
    return step > 0


def same_strides(shape: tuple[Size, ...], one: tuple[Size, ...], other: tuple[Size, ...]) -> bool:
    """True when strides mean the same: those of axes of size 1, and of empty tensors, mean nothing.

    But torch's convolutions and poolings tell by all strides in which format their results lie.
    """
    if 0 in shape:
        return True
    if any(a != b for n, a, b in zip(shape, one, other, strict=True) if n != 1):
        return False
    return 1 not in shape or _is_channels_last(shape, one) == _is_channels_last(shape, other)


def tells_format(shape: tuple[Size, ...]) -> bool:
    """True where strides of axes of size 1 may decide in which format torch's results lie."""
    return 1 in shape and len(shape) in (4, 5)


def _is_channels_last(shape: tuple[Size, ...], stride: tuple[Size, ...]) -> bool:
    """Say whether torch takes strides for those of channels last, as c10/core/MemoryFormat.h does."""
    if not tells_format(shape) or not all(isinstance(n, int) for n in (*shape, *stride)) or stride[1] == 0:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        step, size = int(stride[axis]), int(shape[axis])
        if step < least or (axis == 0 and least == stride[1]):
            return False
        least = step * size
    return True


def is_apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True when no write to one tensor can change the other: they lie in different storages."""
    return one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()


@dataclass(frozen=True)
class Weight:
    """A parameter or buffer that the kernel reads."""

    facts: TensorFacts
    is_parameter: bool
    same_as: str | None = None
    """The name under which the same tensor stands first."""
    is_written: bool = False
    """A call changes it."""
    requires_grad: bool = False


@dataclass(frozen=True)
class Constant:
    """A tensor of the module that is no part of its state_dict: the kernel may have its values built in."""

    facts: TensorFacts
    digest: str
    is_buffer: bool


@dataclass(frozen=True)
class Part:
    """One submodule: its class and what plain attributes it has."""

    cls: str
    attributes: dict[str, Any]
    """Name -> plain value, or a tuple, list, dict of such, or something that can be imported."""
    opaque: dict[str, str] = field(default_factory=dict)
    """Attributes of other kinds, and of functions and classes that are not torch's -> their descriptions. A
    change is seen where another object takes their place, and when the module is looked at whole."""
    nothing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameters, buffers and submodules that are None, by where they are held."""
    code: str = ""
    """Which code its class has; empty for classes of torch."""
    same_as: str | None = None
    """The path under which the same submodule stands first."""
    order: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameters, buffers and submodules in their order, by where they are held, where the order may matter;
    None left out."""
    unsaved: tuple[str, ...] = ()
    """Buffers that the state_dict leaves out, those that are None too."""


@dataclass(frozen=True)
class Span:
    """An extent that may vary."""

    name: str
    low: int
    high: int
    position: int
    """Of the input that has it."""
    axis: int

    def of(self, tensors: Sequence[torch.Tensor]) -> int:
        """Return the extent in a call; -1 where the tensor has no such axis."""
        tensor = tensors[self.position]
        return tensor.shape[self.axis] if self.axis < tensor.dim() else -1


@dataclass(frozen=True)
class Case:
    """One verified call, or the calls of a verified range."""

    name: str
    arguments: dict[str, Structure]
    """Parameter of forward -> what was given; parameters that are not here had their defaults."""
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    """Of the kernel's own results."""
    result: Structure
    """What the original returns."""
    spans: tuple[Span, ...] = ()
    aliases: tuple[Alias | None, ...] = ()
    """Of each result, what it is or is a view of; none at all where every one has memory of its own."""
    defaults: dict[str, Structure] = field(default_factory=dict)
    """Parameters of forward that were not given and whose defaults can change in place -> what those were."""

    def for_call(self, tensors: Sequence[torch.Tensor]) -> "Case":
        """Return the case with the extents of a call's tensors; itself where nothing varies."""
        if not self.spans:
            return self
        extents = {span.name: span.of(tensors) for span in self.spans}
        return replace(
            self,
            inputs=tuple(facts.at(extents) for facts in self.inputs),
            outputs=tuple(facts.at(extents) for facts in self.outputs),
        )

    @property
    def form(self) -> str:
        """Everything of its calls but tensors: structures, plain values, how many tensors."""
        arguments = {name: to_data(value) for name, value in self.arguments.items()}
        return json.dumps([arguments, len(self.inputs), len(self.outputs)])

    def is_met_by(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Say whether the tensors of a call are as they were verified."""
        if len(tensors) != len(self.inputs) or self.outside(tensors) is not None:
            return False
        facts = self.for_call(tensors).inputs
        return not any(known.difference(tensor) for known, tensor in zip(facts, tensors, strict=True))

    def outside(self, tensors: Sequence[torch.Tensor]) -> str | None:
        """Return which extent of a call was not verified, in words."""
        for span in self.spans:
            if not span.low <= (found := span.of(tensors)) <= span.high:
                where = f"axis {span.axis} of input {span.position}"
                return f"{where} has {found} elements, verified from {span.low} to {span.high}"
        return None


@dataclass(frozen=True)
class Gradients:
    """Which gradients a backward kernel computes, and from which."""

    inputs: tuple[int, ...]
    """Positions of the inputs whose gradients come first."""
    parameters: tuple[str, ...]
    """Names of the parameters whose gradients come after them."""
    results: tuple[int, ...]
    """Positions of the results whose gradients it takes, after the inputs."""
    reached: tuple[tuple[int, ...], ...] = ()
    """Of each of these results, which of the gradients it has a part in, by their positions."""

    def through(self, results: Collection[int]) -> set[int]:
        """Return the positions of the gradients that any of these results has a part in."""
        pairs = zip(self.results, self.reached, strict=True)
        return {position for result, reached in pairs if result in results for position in reached}


@dataclass(frozen=True)
class Contract:
    """Everything that must hold."""

    title: str
    kernel: str
    """Id of the candidate that the referee verified."""
    cases: tuple[Case, ...]
    parts: dict[str, Part]
    """By dotted path; the module itself is ``""``."""
    weights: dict[str, Weight]
    constants: dict[str, Constant]
    default_dtype: str = "float32"
    is_flat: bool = False
    """The kernel takes the tensors of a call one after the other; False: the call's own arguments."""
    spread: str = ""
    """The parameter of forward that takes any number of positional arguments, if it has one."""
    is_frozen: bool = False
    """The kernel may prepare its weights once; changed ones are detected and prepared anew."""
    gradients: Gradients | None = None
    """What the backward kernel computes; None where there is none."""
    effects: tuple[str, ...] = ()
    """Attributes that a call changes, which no kernel does."""
    seed: int = 0
    """Under which the kernel's constructor draws what the original's drew."""
    init: tuple[Any, ...] = field(default=(), compare=False)
    """Arguments of the kernel's constructor."""

    @property
    def may_hide_tensors(self) -> bool:
        """True where attributes of other kinds may hold tensors."""
        return any(part.opaque.keys() - part.attributes.keys() for part in self.parts.values())

    @property
    def devices(self) -> list[str]:
        """Kinds of the devices that a call computes on; one without inputs has results."""
        return sorted({facts.device for case in self.cases for facts in (*case.inputs, *case.outputs)})

    @property
    def without_gradient(self) -> list[str]:
        """Names of the tensors of the module whose gradients no backward kernel computes; tied ones once."""
        computed = self.gradients.parameters if self.gradients is not None else ()
        own = [name for name, weight in self.weights.items() if weight.same_as is None]
        return [name for name in (*own, *self.constants) if name not in computed]

    def entries(self, path: str) -> dict[str, int]:
        """Return how many parameters, buffers and submodules a submodule holds, None among them."""
        names = [name for name, weight in self.weights.items() if weight.is_parameter]
        others = [name for name, weight in self.weights.items() if not weight.is_parameter]
        others += [name for name, constant in self.constants.items() if constant.is_buffer]
        inner = [name for name in self.parts if name]
        nothing = self.parts[path].nothing
        return {
            holder: sum(name.rpartition(".")[0] == path for name in found) + len(nothing.get(holder, ()))
            for holder, found in zip(HOLDERS, (names, others, inner), strict=True)
        }

    @property
    def operators(self) -> tuple[int, ...]:
        """Which custom operator serves each case: one takes tensors alone, so it has one form of call."""
        forms = [case.form for case in self.cases]
        numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
        return tuple(numbers[form] for form in forms)

    def cases_of(self, operator: int) -> tuple[Case, ...]:
        """Return the cases that a custom operator serves."""
        return tuple(c for c, number in zip(self.cases, self.operators, strict=True) if number == operator)

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON-ready data; the constructor's arguments are not part of it."""
        data = asdict(self)
        del data["init"]
        if self.gradients is None:
            del data["gradients"]
        for name in ("effects", "seed"):
            if not data[name]:
                del data[name]
        data["cases"] = [_case_to_data(case) for case in self.cases]
        data["parts"] = {path: _part_to_data(part) for path, part in self.parts.items()}
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any], init: tuple[Any, ...] = ()) -> "Contract":
        """Invert ``to_data``."""
        return cls(
            **{
                **data,
                "cases": tuple(_case_from_data(case) for case in data["cases"]),
                "parts": {path: _part_from_data(part) for path, part in data["parts"].items()},
                "weights": {
                    n: Weight(**{**w, "facts": _facts(w["facts"])}) for n, w in data["weights"].items()
                },
                "constants": {
                    n: Constant(**{**c, "facts": _facts(c["facts"])}) for n, c in data["constants"].items()
                },
                "gradients": _gradients(data.get("gradients")),
                "effects": tuple(data.get("effects", ())),
                "init": init,
            }
        )


def arguments_from(
    arguments: Mapping[str, Structure], spread: str, tensors: Sequence[torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and named arguments; ``spread`` is as in ``Contract``."""
    made = {name: put_together(value, tensors) for name, value in arguments.items()}
    if not spread:
        return [], made
    rest = made.pop(spread, ())
    return [*made.values(), *rest], {}


def parts_of(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield every submodule by every path; the module itself comes first."""
    yield from module.named_modules(remove_duplicate=False)


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and saved buffers by all their names: a ``state_dict`` that no hook has a hand in."""
    return {
        f"{path}.{leaf}".lstrip("."): tensor
        for path, part in parts_of(module)
        for leaf, tensor in (*part._parameters.items(), *part._buffers.items())
        if tensor is not None and leaf not in part._non_persistent_buffers_set
    }


def names_of(module: nn.Module) -> dict[int, str]:
    """Return the first name of each parameter and saved buffer, by identity."""
    return {id(tensor): name for name, tensor in reversed(weights_of(module).items())}


def describe_parts(module: nn.Module) -> dict[str, Part]:
    """Return what is known of every submodule."""
    seen: dict[int, str] = {}
    found, names, ordered = {}, names_of(module), ordered_parts(module)
    for path, part in parts_of(module):
        first = seen.setdefault(id(part), path)
        described = _describe_part(part, None if first == path else first, names)
        several = {holder: order for holder, order in order_of(part).items() if len(order) > 1}
        found[path] = replace(described, order=several) if id(part) in ordered else described
    return found


def describe_weights(module: nn.Module, written: frozenset[str]) -> dict[str, Weight]:
    """Return the tensors that are saved; ``written`` names those that a call changes."""
    seen: dict[int, str] = {}
    found = {}
    for name, tensor in weights_of(module).items():
        first = seen.setdefault(id(tensor), name)
        is_parameter = isinstance(tensor, nn.Parameter)
        same_as = None if first == name else first
        found[name] = Weight(
            TensorFacts.of(tensor), is_parameter, same_as, name in written, tensor.requires_grad
        )
    return found


def written_weights(contract: "Contract") -> tuple[str, ...]:
    """Return the names of the tensors that a call writes, each once."""
    return tuple(name for name, w in contract.weights.items() if w.is_written and w.same_as is None)


def describe_constants(module: nn.Module) -> dict[str, Constant]:
    """Return tensors that the state_dict does not hold: attributes, and buffers that are not saved."""
    return {
        path: Constant(TensorFacts.of(tensor), digest_of(tensor), leaf in holder._buffers)
        for path, holder, leaf, tensor in constants_of(module)
    }


def constants_of(module: nn.Module) -> Iterator[tuple[str, nn.Module, str, torch.Tensor]]:
    """Yield path, holder, name and tensor of what the state_dict does not hold."""
    for path, part in module.named_modules():
        for leaf, tensor in (*vars(part).items(), *part._buffers.items()):
            is_saved = leaf in part._buffers and leaf not in part._non_persistent_buffers_set
            if isinstance(tensor, torch.Tensor) and not is_saved:
                yield f"{path}.{leaf}".lstrip("."), part, leaf, tensor


def hidden_tensors(contract: Contract, module: nn.Module) -> tuple[torch.Tensor, ...]:
    """Return the tensors inside attributes of other kinds, such as lists of tensors."""
    found = {
        id(tensor): tensor
        for path, part in parts_of(module)
        if path in contract.parts
        for name in contract.parts[path].opaque
        for tensor in tensors_inside(vars(part).get(name))
    }
    return tuple(found.values())


STANDARD = frozenset(vars(nn.Module()))
"""Entries that every module has; ``training`` among them counts as an attribute all the same."""


def attributes_of(part: nn.Module) -> dict[str, Any]:
    """Return a submodule's own attributes, tensors and standard entries aside."""
    others = not_held(part)
    return {
        name: value
        for name, value in vars(part).items()
        if name not in others
        and (name == "training" or name not in STANDARD)
        and not isinstance(value, torch.Tensor)
    }


def others_of(contract: Contract, path: str, part: nn.Module) -> frozenset[str]:
    """Return the names of what a submodule holds besides, which no guard compares."""
    known = contract.parts[path]
    constants = (name.removeprefix(f"{path}.") for name in contract.constants)
    return frozenset(vars(part)) - {*known.attributes, *known.opaque, *STANDARD, *constants}


def _describe_part(part: nn.Module, same_as: str | None, names: Mapping[int, str]) -> Part:
    attributes, opaque = {}, {}
    for name, value in attributes_of(part).items():
        try:
            plain_to_data(value)
            attributes[name] = copy.deepcopy(value)  # who changes a list in place changes his own
            if _holds_code(value):
                opaque[name] = description_of(value, names)
        except (UnstructuredError, TypeError):
            opaque[name] = description_of(value, names)
    nothing = {
        holder: tuple(name for name, value in vars(part)[holder].items() if value is None)
        for holder in HOLDERS
    }
    unsaved = tuple(name for name in part._buffers if name in part._non_persistent_buffers_set)
    kind = original_class(type(part))
    return Part(name_of(kind), attributes, opaque, nothing, code_of(kind), same_as, unsaved=unsaved)


def _holds_code(value: Any) -> bool:
    """True for a plain value with functions or classes in it that are not told by their names alone."""
    if isinstance(value, dict):
        return any(map(_holds_code, (*value, *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_code, value))
    codes = [value] if isinstance(value, type) else functions_in(value)
    return any(edition(str(code.__module__)) != "" for code in codes)


def original_class(kind: type) -> type:
    """Return the class that a delivered class was made of; any other class, a derived one too, is its own."""
    found = vars(kind).get(ORIGINAL)
    return found if isinstance(found, type) else kind


def is_derived(kind: type) -> bool:
    """True for a class that somebody derived from a delivered one."""
    return ORIGINAL not in vars(kind) and any(ORIGINAL in vars(base) for base in kind.__mro__)


def require_underived(kind: type) -> None:
    """Raise TypeError for such a class: nothing can be delivered in its place."""
    if is_derived(kind):
        raise TypeError(
            f"the class of the module, {kind.__qualname__}, is derived from a delivered one; derive it from "
            "the original's"
        )


def signature_of(kind: type[nn.Module]) -> inspect.Signature:
    """Return the signature of a class's forward without ``self``."""
    signature = inspect.signature(kind.forward)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def defaults_of(signature: inspect.Signature, given: Collection[str]) -> dict[str, Structure]:
    """Return the defaults that a call takes and that can change in place: lists, dicts and such."""
    found = {}
    for name, parameter in signature.parameters.items():
        if name not in given and not _is_hashable(parameter.default):
            with contextlib.suppress(UnstructuredError):
                found[name] = take_apart(parameter.default, lambda part: False)[0]
    return found


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call gives, by parameter; raises TypeError where forward does not take it."""
    return dict(signature.bind(*args, **kwargs).arguments)


def same_attribute(value: Any, verified: Any) -> bool:
    """True when an attribute means what it meant for the verdict."""
    if value is verified:
        return True
    try:
        is_alike = type(value) is type(verified)
        return is_alike and repr(plain_to_data(value)) == repr(plain_to_data(verified))  # 1 equals True
    except (UnstructuredError, TypeError):
        return False


def is_settled(value: Any) -> bool:
    """True for attributes whose identity settles their value."""
    return is_plain(value) or callable(value)


def _part_to_data(part: Part) -> dict[str, Any]:
    plain = {name: plain_to_data(value) for name, value in part.attributes.items()}
    data = {f.name: getattr(part, f.name) for f in fields(Part)} | {"attributes": plain}
    for name in ("order", "unsaved"):
        if not data[name]:
            del data[name]
    return data


def _part_from_data(data: Mapping[str, Any]) -> Part:
    attributes = {name: plain_from_data(value) for name, value in data["attributes"].items()}
    order = {holder: tuple(names) for holder, names in data.get("order", {}).items()}
    unsaved = tuple(data.get("unsaved", ()))
    return Part(**{**data, "attributes": attributes, "order": order, "unsaved": unsaved})


def _gradients(data: Mapping[str, Any] | None) -> Gradients | None:
    if data is None:
        return None
    reached = tuple(map(tuple, data["reached"]))
    return Gradients(tuple(data["inputs"]), tuple(data["parameters"]), tuple(data["results"]), reached)


def _facts(data: Mapping[str, Any]) -> TensorFacts:
    return TensorFacts(tuple(data["shape"]), tuple(data["stride"]), data["dtype"], data["device"])


def _case_to_data(case: Case) -> dict[str, Any]:
    data = asdict(case)
    data["arguments"] = {name: to_data(value) for name, value in case.arguments.items()}
    data["result"] = to_data(case.result)
    data["defaults"] = {name: to_data(value) for name, value in case.defaults.items()}
    for name in ("aliases", "defaults"):
        if not any(data[name]):
            del data[name]
    return data


def _case_from_data(data: Mapping[str, Any]) -> Case:
    return Case(
        data["name"],
        {name: from_data(value) for name, value in data["arguments"].items()},
        tuple(map(_facts, data["inputs"])),
        tuple(map(_facts, data["outputs"])),
        from_data(data["result"]),
        tuple(Span(**span) for span in data.get("spans", ())),
        tuple(map(alias_from_data, data.get("aliases", ()))),
        {name: from_data(value) for name, value in data.get("defaults", {}).items()},
    )
