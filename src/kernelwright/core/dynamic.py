"""Dynamic axes: extents that a kernel takes at run time, over a range, instead of one fixed size."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import model_validator

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

BATCH = "batch"
"""The axis 0 of every tensor of a call that is as long there as the first one."""
MOST_EXTENT = 2**31 - 1
N_DRAWN = 2
"""Extents between the edges that a kernel is verified on; ours."""
_PATTERN = re.compile(
    r"(?P<name>\w+)(=(?P<axes>[\w.]+:\d+(,[\w.]+:\d+)*))?(:(?P<low>\d+)-(?P<high>\d+)?)?(@(?P<timed>\d+(,\d+)*))?"
)


class DynamicAxis(Frozen):
    """One extent that may vary, and the axes that have it.

    As it is asked for, arguments may be names, and what is left out follows the task. On a task everything is
    there: ``axes`` names tensors by their position among those of a call.
    """

    name: str
    """An identifier."""
    axes: tuple[tuple[int | str, int], ...] = ()
    """(argument, axis) pairs that always have the same extent. Empty: the batch."""
    low: int | None = None
    """Smallest extent; None: 1."""
    high: int | None = None
    """Largest extent; None: the task's own."""
    timed: tuple[int, ...] = ()
    """Extents that kernels are timed at, the one they are made for first; empty: the task's own."""

    @model_validator(mode="after")
    def _is_a_range(self) -> "DynamicAxis":
        low, high = self.low or 1, self.high or MOST_EXTENT
        if not self.name.isidentifier():
            raise UserError(f"--dynamic: {self.name!r} is no name; use letters, digits and underscores")
        if self.low == 0 or low > high or high > MOST_EXTENT:
            raise UserError(
                f"--dynamic {self.name}:{self.low}-{self.high}: give a range from 1 to at most 2147483647"
            )
        if outside := [extent for extent in self.timed if not low <= extent <= high]:
            raise UserError(f"--dynamic {self.name}: the timed extent {outside[0]} is outside {low}-{high}")
        return self

    @property
    def span(self) -> tuple[int, int]:
        """The edges of a task's axis."""
        return self.low or 1, self.high or MOST_EXTENT

    @property
    def words(self) -> str:
        """As the command line has it."""
        where = ",".join(f"{argument}:{axis}" for argument, axis in self.axes)
        has_range = self.low is not None or self.high is not None
        span = f":{self.low or 1}-{self.high or ''}" if has_range else ""
        timed = f"@{','.join(map(str, self.timed))}" if self.timed else ""
        return f"{self.name}{'=' if where else ''}{where}{span}{timed}"


def parse_dynamic(text: str) -> DynamicAxis:
    """Parse ``NAME=INPUT:AXIS``, with more axes after commas, then ``:MIN-MAX``, then ``@TIMED,...``.

    ``batch`` alone is the axis 0 of every tensor that is as long there as the first one: ``batch:1-64``.

    Raises:
        UserError: it is none of these.

    Example:
        >>> parse_dynamic("rows=x:0,y:0:1-64").axes
        (('x', 0), ('y', 0))
    """
    found = _PATTERN.fullmatch(text.replace(" ", ""))
    if found is None or (found["axes"] is None and found["name"] != BATCH):
        raise UserError(
            f"--dynamic {text!r}: expected batch or NAME=INPUT:AXIS, with a range: batch:1-64, "
            "rows=x:0,y:0:1-64; after @, extents to time: batch:1-64@8,64"
        )
    words = (word.partition(":") for word in (found["axes"] or "").split(",") if word)
    return DynamicAxis(
        name=found["name"],
        axes=tuple((int(a) if a.isdigit() else a, int(n)) for a, _, n in words),
        low=int(found["low"]) if found["low"] else None,
        high=int(found["high"]) if found["high"] else None,
        timed=tuple(map(int, found["timed"].split(","))) if found["timed"] else (),
    )


def read_dynamic(given: Any) -> tuple[DynamicAxis, ...]:
    """Return dynamic axes as the library takes them.

    Args:
        given: text as for ``parse_dynamic``, a ``DynamicAxis``, a sequence of these, or a mapping as for
            ``torch.export``: argument -> axis -> ``torch.export.Dim`` or a name; the same one ties axes.

    Raises:
        UserError: it is none of these.
    """
    if given is None:
        return ()
    if isinstance(given, DynamicAxis):
        return (given,)
    if isinstance(given, str):
        return (parse_dynamic(given),)
    if isinstance(given, Mapping):
        return _from_dims(given)
    if isinstance(given, Sequence):
        return tuple(axis for one in given for axis in read_dynamic(one))
    raise UserError(f"dynamic: {given!r} is neither text nor a mapping of arguments to axes")


def _from_dims(given: Mapping[Any, Any]) -> tuple[DynamicAxis, ...]:
    found: dict[str, DynamicAxis] = {}
    for argument, axes in given.items():
        if not isinstance(axes, Mapping):
            raise UserError(
                f"dynamic: {argument!r} needs a mapping of axes to torch.export.Dim; got {axes!r}"
            )
        for axis, dim in axes.items():
            if dim is None:
                continue
            name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
            if not isinstance(name, str) or not isinstance(axis, int):
                raise UserError(
                    f"dynamic: axis {axis!r} of {argument!r}: give a torch.export.Dim or a name; got {dim!r}"
                )
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            known = found.get(name, DynamicAxis(name=name, low=low or None, high=_finite(high)))
            found[name] = known.model_copy(update={"axes": (*known.axes, (argument, axis))})
    return tuple(found.values())


def _finite(high: Any) -> int | None:
    return high if isinstance(high, int) and high <= MOST_EXTENT else None


def verified_extents(axes: Sequence[DynamicAxis], seed: str) -> list[tuple[int, ...]]:
    """Return the extents to verify on besides the timed ones: all edges, and some drawn between them."""
    draw = random.Random(seed)
    spans = [axis.span for axis in axes]
    points = [tuple(low for low, _ in spans), tuple(high for _, high in spans)]
    points += [tuple(draw.randint(low, high) for low, high in spans) for _ in range(N_DRAWN)]
    if len(axes) > 1:
        points += [tuple(draw.choice(span) for span in spans)]
    return list(dict.fromkeys(points))


def sample_extents(axes: Sequence[DynamicAxis], seed: str) -> list[tuple[int, ...]]:
    """Return the extents that a graph is captured at to learn how it depends on them.

    They lie inside the ranges where these are long enough, near the extents that kernels are made for, and
    are at least 2: an axis of one element means too many things.
    """
    draw = random.Random(seed)
    n_terms = (len(axes) + 1) * (len(axes) + 2) // 2
    pools = []
    for axis in axes:
        low, high = axis.span
        made_for = axis.timed[0]
        inside = sorted((n for n in _near(made_for, max(low, 2), high)), key=lambda n: abs(n - made_for))
        beyond = [max(high, 2) + n for n in range(1, 1 + max(0, n_terms + 2 - len(inside)))]
        pools.append((inside + beyond)[: n_terms + 4])
    if len(axes) == 1:
        return [(n,) for n in pools[0][: n_terms + 1]]
    points: dict[tuple[int, ...], None] = {}
    while len(points) < n_terms + 3:
        points[tuple(draw.choice(pool) for pool in pools)] = None
    return list(points)


def _near(made_for: int, low: int, high: int) -> list[int]:
    """Return extents around one, without itself: it may happen to equal another size of the graph."""
    around = range(max(low, made_for - 16), min(high, made_for + 16) + 1)
    return [n for n in around if n != made_for]
