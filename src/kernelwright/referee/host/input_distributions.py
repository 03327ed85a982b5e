"""Changes whole inputs, so that shortcuts that hold for nice data only fail; works in place."""

import math

import torch

SCALES = (3.0, 0.01, 2.0**-20)
"""Factors of the distribution ``scaled``, by variant."""
SPIKE = 50.0
SPIKE_SHARE = 1000
"""One element in this many becomes a spike. The last element always is one: a loop that ends too early misses
it, and a sum over thousands of elements would not show that an ordinary value is missing."""
MOST_PARTS = 16
"""Up to half of the spikes stand where an input is cut that is shared out in 2 to this many parts: a loop of
several threads may lose the ends of its parts there, and a sum over millions would not show it."""
TAIL_EXPONENT = 1.5
"""Pareto exponent of ``heavy_tail``: finite mean, infinite variance."""
TAIL_LIMIT = 1e4
END_SHARE, END_HEIGHT = 0.1, 300.0
"""``END_SHARE`` of the rows begin, and as many end, with a value between ``END_HEIGHT`` and twice that. Loops
go wrong at the ends of rows, and a softmax that has missed its maximum overflows."""
SINK_SHARE, SINK_DEPTH, SINK_SPREAD = 10, 150.0, 100.0
"""One leading index in ``SINK_SHARE``, at least one if there are several, holds only values below
``-SINK_DEPTH``, spread by ``SINK_SPREAD``: their ``exp`` is zero unless their maximum is subtracted first."""
OFFSET = 4.0
"""``offset`` moves all values down by this many times their root mean square, in its second variant those of
every second input up: the mean is then far from zero, almost no element is positive, and products of two
inputs have one sign. It is not larger because honest one-pass variances lose digits with its square."""

FAR = (11.0, 13.0)
"""``far`` moves all values, and the kind ``narrow`` those of a row, by between these powers of two of their
root mean square: there, sums of values and squares have no correct bits left for a variance."""

PERMUTED_TOGETHER = 1 << 20
"""Elements that are permuted at a time; more would take as many bytes again eight times over."""

HALF_ULPS = 2
"""Half precisions are moved by at most so many units: their sums are taken in float32."""
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_ODD = 0x1E3779B97F4A7C15
"""Multiplier of a hash."""


def change_inputs(x: torch.Tensor, family: str, variant: int, generator: torch.Generator) -> None:
    """Change one float input to a distribution (``family``); ``as_is`` leaves it."""
    if family == "scaled":
        x.mul_(SCALES[variant % len(SCALES)])
    elif family == "negated":
        x.neg_()
    elif family == "sparse_spikes":
        _spike(x, generator)
    elif family == "heavy_tail":
        _make_heavy(x, generator)
    elif family == "offset":
        x.sub_((-1) ** variant * OFFSET * float(x.square().mean().sqrt()) if x.numel() else 0.0)
    elif family == "coarse":
        _round(x)
    elif family == "sorted":
        _sort(x, generator)
    elif family == "positive":
        x.abs_()
    elif family == "far":
        _move_far(x, generator)
    elif family in ("zeros", "flat"):
        x.fill_(_level(generator) if family == "flat" else 0.0)


def nudge(x: torch.Tensor, generator: torch.Generator, way: int = 1) -> None:
    """Move every element by a unit in its last place, up or down at random; with -1 the other way."""
    signs = torch.randint(2, x.shape, generator=generator, dtype=torch.int8) * 2 - 1
    x.mul_(1 + way * signs.to(x.dtype) * torch.finfo(x.dtype).eps)


def shift(x: torch.Tensor, ulps: float, generator: torch.Generator) -> None:
    """Move every element by up to ``ulps`` units in the last place; zeros by those of one."""
    by = torch.rand(x.shape, generator=generator).mul_(2).sub_(1)
    _move(x, by, ulps, moves_zeros=True)


def shift_alike(x: torch.Tensor, ulps: float, seed: int) -> None:
    """Move every element by up to ``ulps`` units in the last place; equal elements of all inputs alike."""
    _move(x, lots_alike(x, seed), ulps)


def lots_alike(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Return a number from -1 to 1 for every element, by lot; the same one for equal elements."""
    hashed = x.contiguous().view(_INTEGERS[x.element_size()]).to(torch.int64, copy=True)
    hashed.bitwise_xor_(seed).mul_(_ODD)
    hashed.bitwise_xor_(hashed >> 29).mul_(_ODD)
    hashed.bitwise_right_shift_(24).bitwise_and_(0xFFFFFF)
    return hashed.to(torch.float64).div_(1 << 23).sub_(1).view(x.shape)


def _move(x: torch.Tensor, by: torch.Tensor, ulps: float, *, moves_zeros: bool = False) -> None:
    most = abs(ulps) if x.element_size() > 2 else HALF_ULPS
    by = by.double() * (math.copysign(most, ulps) * torch.finfo(x.dtype).eps)
    x.copy_(x + torch.where(x == 0, 1.0 if moves_zeros else 0.0, x.double()) * by)


def permute(x: torch.Tensor, generator: torch.Generator) -> None:
    """Move every element to a random place: the same values, without any structure.

    In large inputs elements trade places only with those that are a multiple of some number away.
    """
    flat = x.clone(memory_format=torch.contiguous_format).view(-1)
    n_groups = max(x.numel() // PERMUTED_TOGETHER, 1)
    for first in range(n_groups):
        group = flat[first::n_groups]
        group.copy_(group[torch.randperm(group.numel(), generator=generator)])
    x.copy_(flat.view(x.shape))


def _round(x: torch.Tensor) -> None:
    """Round to halves of the mean magnitude, which gives ties, plateaus and zeros of both signs."""
    step = float(x.abs().mean()) / 2 if x.numel() else 0.0
    if step > 0:
        x.div_(step).round_().mul_(step)


def _sort(x: torch.Tensor, generator: torch.Generator) -> None:
    """Sort every row, up or down, so that what is alike lies side by side."""
    if x.ndim:
        is_up = torch.rand((*x.shape[:-1], 1), generator=generator) < 0.5
        ordered = x.sort(dim=-1).values
        x.copy_(torch.where(is_up, ordered, ordered.flip(-1)))


def _move_far(x: torch.Tensor, generator: torch.Generator) -> None:
    """Move all values together far away from zero, up or down."""
    exponent, sign = torch.rand(2, generator=generator).tolist()
    by = 2.0 ** (FAR[0] + (FAR[1] - FAR[0]) * exponent) * math.copysign(1.0, sign - 0.5)
    x.add_(by * float(x.double().square().mean().sqrt()) if x.numel() else 0.0)


def _level(generator: torch.Generator) -> float:
    """Return a constant of either sign between an eighth and 32."""
    exponent, sign = torch.rand(2, generator=generator).tolist()
    return math.copysign(2.0 ** (8 * exponent - 3), sign - 0.5)


def _spike(x: torch.Tensor, generator: torch.Generator) -> None:
    """Make all values small except a few large ones of either sign at random places."""
    x.mul_(0.01)
    if x.numel() == 0:
        return
    n_spikes = max(x.numel() // SPIKE_SHARE, 1) + 1
    where = torch.randint(x.numel(), (n_spikes,), generator=generator)
    cut = cuts(x.numel(), len(x) if x.ndim else 1)
    cut = cut[torch.randperm(len(cut), generator=generator)[: (n_spikes - 1) // 2]]
    where[: len(cut)] = cut
    where[-1] = x.numel() - 1
    height = SPIKE * (0.5 + torch.rand(n_spikes, generator=generator))
    sign = torch.randint(2, (n_spikes,), generator=generator) * 2 - 1
    flat = x.clone(memory_format=torch.contiguous_format).view(-1)
    flat[where] = (height * sign).to(x.dtype)
    x.copy_(flat.view(x.shape))


def cuts(n: int, n_rows: int) -> torch.Tensor:
    """Return the elements on both sides of the cuts where ``n`` elements or their rows are shared out.

    Parts differ by one at most, or the last is shorter than the others, which are alike.
    """
    places = set[int]()
    for size, width in ((n, 1), (n_rows, n // n_rows)):
        for parts in range(2, MOST_PARTS + 1):
            least, rest = divmod(size, parts)
            for k in range(1, parts):
                places |= {(k * least + min(k, rest)) * width, k * -(-size // parts) * width}
    beside = [at - side for at in sorted(places) if 0 < at < n for side in (1, 0)]
    return torch.tensor(beside, dtype=torch.long)


def _make_heavy(x: torch.Tensor, generator: torch.Generator) -> None:
    """Multiply by signed Pareto noise; make some ends of rows high, and some of axis 0 low."""
    uniform = torch.rand(x.numel(), generator=generator).clamp_(min=1e-7)
    tail = uniform.pow_(-1 / TAIL_EXPONENT).sub_(0.5).clamp_(max=TAIL_LIMIT)
    sign = torch.randint(2, (x.numel(),), generator=generator, dtype=torch.int8) * 2 - 1
    n_rows = len(x) if x.ndim else 0
    n_sunk = max(n_rows // SINK_SHARE, 1) if n_rows > 1 else 0
    sunk = torch.randperm(n_rows, generator=generator)[:n_sunk]
    low = -(SINK_DEPTH + SINK_SPREAD * x[sunk].abs()) if n_sunk else None
    x.mul_(tail.mul_(sign).to(x.dtype).view(x.shape))
    if x.ndim == 0 or x.numel() == 0:
        return
    for place in (0, -1):
        ends = x.select(-1, place)
        chosen = torch.rand(ends.shape, generator=generator) < END_SHARE
        height = END_HEIGHT * (1 + torch.rand(ends.shape, generator=generator))
        ends.copy_(torch.where(chosen, height.to(x.dtype), ends))
    if low is not None:
        x[sunk] = low
