"""Results that have no memory of their own: arguments, weights, other results, and views of them.

A kernel writes every result into new memory. What the original returns without a copy is put in its place, so
that who writes into one sees it in the other, as with the original.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Source: TypeAlias = tuple[str, int | str, torch.Tensor]
"""Kind, place and the tensor itself."""
INPUT, HELD, RESULT = "input", "held", "result"


@dataclass(frozen=True)
class StridedView:
    """How a view lies in the memory of what it is a view of."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """In elements, from where the other tensor begins."""

    def of(self, source: torch.Tensor) -> torch.Tensor:
        """Return the view of a tensor."""
        return source.as_strided(self.shape, self.stride, source.storage_offset() + self.offset)


@dataclass(frozen=True)
class Alias:
    """What a result is, or is a view of."""

    of: str
    """``input``, ``held`` (by the module) or ``result``."""
    place: int | str
    """Position among the tensors of the call or of the result, or the name in the module."""
    view: StridedView | None = None
    """None: it is that very tensor."""

    def written(self, source: str) -> str:
        """Return the expression of the result, given that of its source."""
        if self.view is None:
            return source
        place = f"{source}.storage_offset() + {self.view.offset}"
        return f"{source}.as_strided({self.view.shape}, {self.view.stride}, {place})"


def aliases_of(
    results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], held: Mapping[str, torch.Tensor]
) -> tuple[Alias | None, ...]:
    """Return what each result of a call is or is a view of; None where it has memory of its own.

    None, too, where two sources come into question, or the view is none of strides alone.
    """
    sources: list[Source] = [(INPUT, i, tensor) for i, tensor in enumerate(inputs)]
    seen = {id(tensor): (HELD, name, tensor) for name, tensor in reversed(list(held.items()))}
    sources += seen.values()
    found = [_among(result, sources) for result in results]
    first: dict[int, int] = {}
    for number, result in enumerate(results):
        if found[number] is None and _fills_its_memory(result):
            first.setdefault(_address(result), number)
    for number, result in enumerate(results):
        other = first.get(_address(result), number)
        if found[number] is None and other != number:
            found[number] = _among(result, [(RESULT, other, results[other])])
    return tuple(found)


def with_aliases(
    results: Sequence[torch.Tensor],
    aliases: Sequence[Alias | None],
    inputs: Sequence[torch.Tensor],
    held: Mapping[str, torch.Tensor],
) -> list[torch.Tensor]:
    """Return a kernel's results with what the original returns without a copy in its place."""
    sources: dict[str, Any] = {INPUT: inputs, HELD: held, RESULT: results}
    found = list(results)
    for number, alias in enumerate(aliases):
        if alias is not None:
            source = sources[alias.of][alias.place]
            found[number] = source if alias.view is None else alias.view.of(source)
    return found


def without_views(aliases: Sequence[Alias | None]) -> tuple[Alias | None, ...]:
    """Return the aliases that are the other tensor itself: they hold for all sizes and all tracers."""
    return tuple(alias if alias and alias.view is None else None for alias in aliases)


def from_data(data: Mapping[str, Any] | None) -> Alias | None:
    """Invert ``dataclasses.asdict``; raises ValueError where a hand wrote something else."""
    if data is None:
        return None
    view, place = data["view"], data["place"]
    if data["of"] not in (INPUT, HELD, RESULT) or isinstance(place, str) is not (data["of"] == HELD):
        raise ValueError(f"a result cannot be {data['of']} {place}")
    made = view and StridedView(_numbers(view["shape"]), _numbers(view["stride"]), int(view["offset"]))
    return Alias(data["of"], place if isinstance(place, str) else int(place), made)


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _among(result: torch.Tensor, sources: Sequence[Source]) -> Alias | None:
    same = [source for source in sources if source[2] is result]
    if len(same) == 1:
        return Alias(*same[0][:2])
    near = [source for source in sources if _address(result) and _address(source[2]) == _address(result)]
    if same or len(near) != 1:
        return None
    of, place, other = near[0]
    is_negated = any(tensor.is_conj() or tensor.is_neg() for tensor in (result, other))
    if is_negated or result.dtype is not other.dtype or type(result) is not torch.Tensor:
        return None
    offset = int(result.storage_offset()) - int(other.storage_offset())
    return Alias(of, place, StridedView(tuple(result.shape), tuple(result.stride()), offset))


def _address(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or not tensor.numel():
        return 0
    return tensor.untyped_storage().data_ptr()


def _fills_its_memory(result: torch.Tensor) -> bool:
    is_full = bool(_address(result)) and (
        result.untyped_storage().nbytes() == result.numel() * result.element_size()
    )
    return is_full and torch._debug_has_internal_overlap(result) == 0
