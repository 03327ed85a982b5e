"""Looks for what wrong elements of an output have in common. Runs where candidates run."""

from typing import Any

import torch

MOST_SHOWN = 5
PERIODS = (2, 4, 8, 16, 32, 64, 128, 256)


def compare_output(
    given: torch.Tensor,
    expected: torch.Tensor,
    allowed: float,
    *,
    is_by_row: bool = False,
    least_scale: float = 0.0,
) -> dict[str, Any]:
    """Return counts, first wrong elements, and the pattern on each axis, as JSON.

    An element is wrong where it is off by more than ``allowed`` of its magnitude and the output's root mean
    square together, or is not finite where the reference is. ``is_by_row`` takes a row's root mean square, or
    the middle row's where that is more. ``least_scale`` is the least that either counts as, for all zeros.
    """
    value, truth = given.detach().double(), expected.detach().double()
    scale = _row_scale(truth) if is_by_row else torch.tensor(rms(truth))
    scale = scale.clamp(min=least_scale)
    is_alike = (value == truth) | (value.isnan() & truth.isnan())
    is_near = (value - truth).abs() <= allowed * (truth.abs() + scale)
    wrong = ~(is_alike | (is_near & value.isfinite()))
    places = wrong.nonzero()[:MOST_SHOWN].tolist()
    return {
        "n_elements": value.numel(),
        "n_wrong": int(wrong.sum()),
        "n_nan": int((value.isnan() & ~truth.isnan()).sum()),
        "n_infinite": int((value.isinf() & truth.isfinite()).sum()),
        "first": [
            {"index": place, "value": float(value[tuple(place)]), "expected": float(truth[tuple(place)])}
            for place in places
        ],
        "axes": [_axis(wrong, axis) for axis in range(wrong.ndim)] if places else [],
    }


def rms(x: torch.Tensor) -> float:
    """Return the root mean square of what is finite."""
    finite = x.detach().double()[x.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _row_scale(truth: torch.Tensor) -> torch.Tensor:
    if truth.ndim < 2 or not truth.numel():
        return torch.tensor(rms(truth))
    rows = truth.nan_to_num(0.0, 0.0, 0.0).square().mean(-1, keepdim=True).sqrt()
    return rows.clamp(min=float(rows.median()))


def _axis(wrong: torch.Tensor, axis: int) -> dict[str, Any]:
    others = tuple(n for n in range(wrong.ndim) if n != axis)
    along = wrong.any(dim=others) if others else wrong
    indices = along.nonzero().flatten()
    found = {
        "axis": axis,
        "size": along.numel(),
        "n_wrong": indices.numel(),
        "first": int(indices[0]),
        "last": int(indices[-1]),
    }
    return {**found, **_period(indices, along.numel())}


def _period(indices: torch.Tensor, size: int) -> dict[str, int]:
    """Return the period of which the least part is wrong, the shortest of those; nothing without one."""
    found: list[tuple[float, int, int, int]] = []
    for period in PERIODS:
        if 2 * period > size or len(indices) < 2:
            break
        rest = sorted({index % period for index in indices.tolist()})
        low, high = rest[0], rest[-1]
        if len(rest) <= period // 2 and high - low + 1 == len(rest):
            found.append((len(rest) / period, period, low, high))
    if not found:
        return {}
    _, period, low, high = min(found)
    return {"period": period, "low": low, "high": high}
