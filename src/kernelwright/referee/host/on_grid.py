"""Finds inputs on which what a reference rounds is an integer already, as pixel centres are."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.referee.host.redrawn import is_mask
from kernelwright.referee.host.watching import RunTold

GRID_SHARE = 0.125
"""Share of the elements that are put on the grid."""
TURNS, LEAST_TURNS = 8, 3
"""How often elements are moved at most, and until some must have been on the grid."""
ROUND = frozenset({"ceil", "fix", "floor", "frac", "round", "trunc"})
DIVIDE = frozenset({"fmod", "floor_divide", "floordiv", "mod", "remainder"})
"""Operations that round a quotient of their arguments."""
CAST = frozenset({"byte", "char", "int", "long", "short"})
CAST_BY_TYPE = frozenset({"to", "type"})


class Roundings(TorchFunctionMode):
    """Keeps what a call rounds, with the graph that leads there."""

    def __init__(self) -> None:
        super().__init__()
        self.rounded: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rounded = _rounded_by(getattr(func, "__name__", "").strip("_"), args, kwargs)
        if rounded is not None and rounded.requires_grad:
            self.rounded.append(rounded)
        return func(*args, **kwargs)


def _rounded_by(name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Return a copy of what an operation rounds, None where it rounds nothing."""
    if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_floating_point():
        return None
    if name in DIVIDE or (name in ("div", "divide") and kwargs.get("rounding_mode")):
        quotient: torch.Tensor = args[0] / args[1]
        return quotient
    types = [x for x in (*args[1:], *kwargs.values()) if isinstance(x, torch.dtype)]
    is_cast = name in CAST_BY_TYPE and any(
        not of.is_floating_point and not of.is_complex and of is not torch.bool for of in types
    )
    return args[0].clone() if is_cast or name in ROUND | CAST else None


@dataclass
class _Moves:
    """What one call shows of one input."""

    steps: torch.Tensor
    """By how much an element is to move."""
    is_reached: torch.Tensor
    """The elements on which something rounded hangs."""
    is_exact: torch.Tensor
    """Those on which it is an integer."""


def solve_on_grid(
    run_told: RunTold, values: Sequence[torch.Tensor], generator: torch.Generator
) -> list[torch.Tensor] | None:
    """Return inputs of which some elements make an integer of what is rounded; None where none can.

    An element is moved by what is missing, divided by the slope there, several times; then by single units in
    the last place. One that does not get there stays as drawn.
    """
    found = [x.clone() for x in values]
    lots = [torch.rand(x.shape, generator=generator) < GRID_SHARE for x in values]
    for turn in range(TURNS + 1):
        moves = _probe(run_told, found)
        if turn == 0:
            moves = {i: m for i, m in moves.items() if 2 * m.is_exact.sum() < m.is_reached.sum()}
            wanted = {i: lots[i] & m.is_reached for i, m in moves.items()}
        on_grid = {i: where & moves[i].is_exact for i, where in wanted.items() if i in moves}
        is_hopeless = turn >= LEAST_TURNS and not any(map(torch.any, on_grid.values()))
        if not on_grid or is_hopeless or turn == TURNS:
            break
        for i, there in on_grid.items():
            found[i] = torch.where(wanted[i] & ~there, _moved(found[i], moves[i].steps, generator), found[i])
    for i, there in on_grid.items():
        found[i] = torch.where(there, found[i], values[i])
    return found if any(map(torch.any, on_grid.values())) else None


def _moved(x: torch.Tensor, steps: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return elements moved by a step each, or by a unit in the last place where that is less."""
    moved = (x.double() + steps).to(x.dtype)
    up = torch.rand(x.shape, generator=generator) < 0.5
    beside = torch.nextafter(x, torch.where(up, torch.inf, -torch.inf).to(x.dtype))
    return torch.where(moved == x, beside, moved)


def _probe(run_told: RunTold, values: Sequence[torch.Tensor]) -> dict[int, _Moves]:
    """Call the reference, and find for each float input how its elements come upon the grid."""
    given: list[torch.Tensor] = []

    def tell(tensors: list[torch.Tensor]) -> None:
        given.extend(tensors)
        for x, value in zip(tensors, values, strict=True):
            if x.is_floating_point() and x.shape == value.shape and not is_mask(value):
                x.requires_grad_()

    with torch.enable_grad(), Roundings() as mode:
        run_told(list(values), tell)
    free = [i for i, x in enumerate(given) if x.requires_grad and x.is_leaf]
    found: dict[int, _Moves] = {}
    for rounded in mode.rounded:
        with contextlib.suppress(RuntimeError):  # a graph that nobody can follow
            _see(rounded, {i: given[i] for i in free}, found)
    return found


def _see(rounded: torch.Tensor, inputs: dict[int, torch.Tensor], found: dict[int, _Moves]) -> None:
    """Note how the input on which most of something rounded hangs comes upon the grid, place by place."""

    def pulled(by: torch.Tensor) -> list[torch.Tensor | None]:
        """Return what each element of the inputs gets of what is given to the places that hang on it."""
        grads = torch.autograd.grad(rounded, list(inputs.values()), by, retain_graph=True, allow_unused=True)
        return [None if x is None else x.cpu().double() for x in grads]

    gap = (rounded.round() - rounded).detach()
    slopes = dict(zip(inputs, pulled(torch.ones_like(gap)), strict=True))
    reached = {i: slope != 0 for i, slope in slopes.items() if slope is not None}
    counts = {i: int(where.sum()) for i, where in reached.items()}
    fitting = [i for i, n in counts.items() if 0 < n <= rounded.numel()]
    if not fitting:
        return
    best = max(fitting, key=counts.__getitem__)
    at = list(inputs).index(best)
    slope, is_reached = slopes[best], reached[best]
    missing, hits = pulled(gap)[at], pulled((gap == 0).to(gap.dtype))[at]
    assert slope is not None and missing is not None and hits is not None
    steps = torch.where(is_reached, missing / slope.square(), 0.0)
    moves = _Moves(steps, is_reached, is_reached & (hits == slope))
    known = found.setdefault(best, moves)
    is_new = is_reached & ~known.is_reached
    known.steps = torch.where(is_new, moves.steps, known.steps)
    known.is_exact = torch.where(is_new, moves.is_exact, known.is_exact)
    known.is_reached = known.is_reached | is_new
