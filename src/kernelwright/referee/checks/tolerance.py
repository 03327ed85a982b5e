"""How far from the truth an output may be.

The truth is the *oracle*: the reference run in float64 on the same float32 inputs and weights. An output
``x`` is judged by two scaled errors against the oracle ``o``: the largest ``|x-o| / (|o| + rms(o))`` over the
elements, and the relative L2 error ``|x-o| / |o|``. The float32 reference has both errors too, and

    allowed = max(4 x the reference's error, floor)

So a kernel may be as wrong as honest float32 arithmetic in another order is on the same problem, and no more.

The floor exists because the reference's error on one sample can be zero by luck (one scalar, an exact
operation). Under ``strict`` the floor is 16 units in the last place, plus 4 units for each doubling of the
number of inputs per output, as the error of a sum grows in an unlucky order. That number is the ratio of
all input elements to the elements of the output, or the longest reduction where this is more: the elements
of an input that share a place on its shortest axis. Each output of a softmax, a norm or a scan may depend on
that many (torch's own batch norm on channels-last memory needs this). The floor is 4.8e-6 for rows of 64
numbers and 1.3e-5 for a mean of 16 million. Rounding inputs to bfloat16 costs about 2e-3 and to TF32 about
2e-4, so the floor catches both. ``tf32`` and ``bf16`` raise the floor to 2 x 2^-10 and 2 x 2^-7.

Half precisions have the floor of float32, because honest kernels sum in it, and 4 units of their own for
roundings. 16 of these would be an eighth in bfloat16, and more where many inputs are summed.

The reference's error is also a matter of luck where a few elements depend on the last bit of an input, such
as two scores of an attention that are nearly equal and both about a thousand. An output outside the tolerance
is therefore judged again, element by element: every input is moved by one unit in its last place, and the
distance by which the oracle's element moves, times the floor in units, is allowed as well. Rounding to TF32
moves inputs 4096 times as far.

Where a few rows of the inputs are far from ordinary, outputs are judged *row by row*: ``rms(o)`` is that of
an output's row, or that of the middle row where this is more, and ``allowed`` depends on the reference's
error in the same row. Else one row of huge values would hide what is wrong in the others. A row is what lies
along the last axis. Where the reference convolves, it is a whole image: Winograd's and Fourier's transforms
mix values of one image, so that a large one leaves its rounding in all of it.

A running mean of torch's batch norm may be zero but for roundings, and so is the reference's error then. Its
errors are relative to the size of what was averaged, at least (``host/averages.py``).

``kernelbench`` is ``allclose(1e-4, 1e-4)`` against the float32 reference instead. Integers and bools must
equal the reference's or the oracle's, element by element; where one does not, also those of moved inputs,
with an oracle whose own results are moved as roundings would move them. We chose the constants.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernelwright.core.task import TolerancePolicy

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Storage: TypeAlias = dict[str, Array]
"""Memory of one output's ``ExpectedOutput`` that the next one uses again, because fresh pages are slow."""

REFERENCE_MULTIPLE = 4.0
FLOOR_ULP = 16
KERNELBENCH_TOLERANCE = 1e-4
POLICY_FLOOR = {
    TolerancePolicy.TF32: 2 * 2.0**-10,
    TolerancePolicy.BF16: 2 * 2.0**-7,
    TolerancePolicy.KERNELBENCH: KERNELBENCH_TOLERANCE,
}
"""That of ``kernelbench`` is for outputs that are judged row by row."""
HALF_UNITS = 4
"""Units in the last place that roundings to half precision may cost. Sums are taken in float32, so this does
not grow with the number of inputs."""
EVEN_ROUNDINGS = 0.25
"""The share of them that the l2 error of all elements may have: a constant factor is no rounding."""
ULP = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
HALVES = ("float16", "bfloat16")
DOUBLE = 256.0
"""Factor on the floor of float64, whose oracle is as inexact as the reference. Float32 is coarser by 2^29."""
COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
JUMP = 32.0
"""A float jumps where it moves by so many times what was moved inside the oracle, relative to its size and to
that of the output."""
BLUR = 4.0
"""A jump that is seen where inputs were moved may be too small by so many times that move: what jumps moves
smoothly as well."""
NEWS = 1.25
"""An element jumps farther than before by more than this factor, since jumps also move smoothly."""
TORN = 2.0**-12
"""Reference and oracle are at odds about an integer that differs by more than one, and by more than this."""

_CHUNK = 1 << 16
"""Elements compared at a time, so that the temporaries stay in the cache."""
_TINY = 1e-30
"""Scale where the oracle is zero everywhere: then only zero is close."""
_NOTHING: Array = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Slack:
    """Factors on the allowed error, for inputs on which honest arithmetic needs more."""

    reference: float = 1.0
    """Factor on the multiple of the reference's error, and on the floor of ``tf32`` and ``bf16``."""
    floor: float = 1.0
    """Factor on the floor of ``strict``."""
    is_by_row: bool = False
    """Judge row by row."""


EVEN = Slack()


@dataclass(frozen=True)
class Distance:
    """How far an output is from what was expected, as scaled errors."""

    error: float
    reference_error: float
    allowed: float
    is_finite: bool = True
    is_same_kind: bool = True
    """False: finite where the reference is not, or the other way round, on inputs with NaN and infinity."""

    @property
    def is_close(self) -> bool:
        """True when the tolerance allows this error."""
        return self.is_finite and self.is_same_kind and self.error <= self.allowed


@dataclass(frozen=True)
class _Errors:
    largest: float
    l2: float


def is_float(dtype: str) -> bool:
    """True for a dtype that is judged by distance and not by equality."""
    return dtype in ULP or dtype in COMPLEX_PARTS


class ExpectedOutput:
    """What one output must be close to, on one sample."""

    def __init__(
        self,
        dtype: str,
        reference: Array,
        oracle: Array,
        *,
        policy: TolerancePolicy,
        inputs_per_output: float,
        slack: Slack = EVEN,
        width: int = 1,
        storage: Storage | None = None,
        least_scale: float = 0.0,
    ) -> None:
        """``reference`` and ``oracle`` are raw bytes; the oracle is float64 when the dtype is a float.

        ``slack`` has no effect under ``kernelbench`` and where equality decides. ``width`` is the number of
        elements in a row. Errors are relative to ``least_scale`` at least.
        With ``storage`` this object is valid until the next one is made in the same storage.
        """
        self._width = width * (2 if dtype in COMPLEX_PARTS else 1)
        self.dtype = COMPLEX_PARTS.get(dtype, dtype)
        self._policy, self._slack = policy, slack
        self.least_scale = least_scale
        self._growth = 1 + math.log2(max(inputs_per_output, 1.0)) / 4
        self._loose: _Loose | None = None
        self._moved: Array | None = None
        self._row_scales: Array | None = None
        self.is_widened = policy is TolerancePolicy.KERNELBENCH and is_float(dtype) and not slack.is_by_row
        """Nothing more will be allowed: ``DrawMaker.widen`` has shown everything, or would change nothing."""
        self._reference, self._oracle = _NOTHING, _NOTHING
        self.rms = 0.0
        if not is_float(dtype):
            self._reference, self._oracle = reference.copy(), oracle.copy()
            self.is_finite = True
            return
        if policy is TolerancePolicy.KERNELBENCH:
            self._reference = reference.copy()
        truth = oracle.view(np.float64)
        self._rms = math.sqrt(sum(_squares(part) for (part,) in _chunks(truth)) / max(truth.size, 1))
        self.rms = self._rms = max(self._rms, least_scale)
        self._high, self._low = _split(truth, self.dtype, {} if storage is None else storage)
        values = decode(reference, self.dtype)
        self.is_finite = math.isfinite(self._rms) and bool(np.isfinite(values).all())
        if slack.is_by_row and self.is_finite and truth.size:
            self._row_scales = np.maximum(_row_scales(truth, self._width), least_scale)
            self._row_errors = self._errors_by_row(values)
        self._reference_errors = self._errors(values) if self.is_finite else _Errors(math.inf, math.inf)

    @property
    def units(self) -> float:
        """By how many units in the last place inputs are moved, to see whether an exact output moves."""
        return self._units(self._slack)

    @property
    def least_units(self) -> float:
        """The same for ordinary inputs: small jumps are no jumps beside what more units move smoothly."""
        return self._units(EVEN)

    def _units(self, slack: Slack) -> float:
        floor = POLICY_FLOOR.get(self._policy, 0.0) / ULP["float32"]
        return max(slack.floor * FLOOR_ULP * self._growth, slack.reference * floor)

    @property
    def _floor(self) -> float:
        """Scaled error that is allowed whatever the reference's own error is."""
        slack, ulp = self._slack, ULP[self.dtype]
        arithmetic = slack.floor * FLOOR_ULP * self._growth * min(ulp, ULP["float32"])
        arithmetic *= DOUBLE if self.dtype == "float64" else 1.0
        return max(arithmetic + self._roundings, slack.reference * POLICY_FLOOR.get(self._policy, 0.0))

    @property
    def _roundings(self) -> float:
        """What roundings to half precision may cost the worst element."""
        return HALF_UNITS * ULP[self.dtype] if self.dtype in HALVES else 0.0

    def widen(self, oracle: Array, unit: float = 0.0) -> None:
        """Allow more where the problem is ill-conditioned, element by element.

        ``oracle`` holds the raw float64 results on inputs that were each moved by a unit in the last place.
        Of several calls, the largest move of each element counts. ``unit`` is the largest such unit of the
        inputs: a unit of half precision is many of the arithmetic's.
        """
        if not is_float(self.dtype):
            return
        if self._moved is None:
            self._moved = np.zeros(self._high.size, np.float32)
        by = self._slack.floor * FLOOR_ULP * self._growth
        if unit > ULP["float32"]:
            by = by * ULP["float32"] / unit + (HALF_UNITS if self.dtype in HALVES else 0)
        with np.errstate(all="ignore"):
            for x, high, low, moved in _chunks(oracle.view(np.float64), self._high, self._low, self._moved):
                np.fmax(moved, np.abs((x - high) - low) * by, out=moved, casting="same_kind")

    def widen_where_it_jumps(
        self,
        oracle: Array,
        *,
        moved_by: float,
        in_rows: bool = False,
        least: float = 0.0,
    ) -> bool:
        """Allow the jumps of elements that hang on roundings, such as those of what is rounded or counted.

        Moves that are no larger than roundings explain stay with ``widen``.

        Args:
            oracle: raw float64 results where inputs, or results inside the oracle, were moved by roundings.
            moved_by: by how much they were moved, relative to them.
            in_rows: the order of equal values is open. So many orders are possible that a few results do not
                show them: where an element of a row jumps, every other one may be what any of them is.
            least: a smaller move, relative to an element and its row, is no jump.

        Returns:
            Whether any element jumped farther than ever before.
        """
        if not is_float(self.dtype):
            return False
        if self._moved is None:
            self._moved = np.zeros(self._high.size, np.float32)
        is_new = False
        scale = max(self._rms, _TINY)
        with np.errstate(all="ignore"):
            arrays = oracle.view(np.float64), self._high, self._low, self._moved
            for rows, x, high, low, moved in self._rows(*arrays):
                by = np.abs((x - high) - low)
                scales = scale if self._row_scales is None else self._row_scales[rows, None]
                sizes = moved_by * (np.abs(high) + scales)
                smallest = np.maximum(JUMP * sizes, least * (np.abs(high) + scales))
                by = np.where(by < smallest, 0.0, by + BLUR * sizes)
                if in_rows:
                    span = np.maximum(x, high).max(axis=1) - np.minimum(x, high).min(axis=1)
                    by = np.where(by.any(axis=1), span, 0.0)[:, None]
                is_new |= bool((by > NEWS * moved).any())
                np.fmax(moved, by, out=moved, casting="same_kind")
        return is_new

    def widen_exact(self, reference: Array, oracle: Array, *, is_open: bool) -> bool:
        """Allow what moved inputs lead to, for dtypes that equality decides about.

        ``reference`` and ``oracle`` are raw results on such inputs. ``is_open``: the reference leaves it open
        which of equal values comes first. An element that never moves stays exact. Returns whether more is
        allowed than before.
        """
        if is_float(self.dtype):
            return False
        if self._loose is None:
            self._loose = _Loose(*(raw.view(np.dtype(self.dtype)) for raw in (self._reference, self._oracle)))
        raws = reference.view(np.dtype(self.dtype)), oracle.view(np.dtype(self.dtype))
        return self._loose.add(*raws, is_open=is_open)

    def judge(self, raw: Array) -> Distance:
        """Compare an output's raw row-major bytes."""
        if not is_float(self.dtype):
            return self._judge_exact(raw)
        values = decode(raw, self.dtype)
        if self._policy is TolerancePolicy.KERNELBENCH and self._row_scales is None:
            return self._judge_allclose(values)
        errors = self._errors(values)
        if not math.isfinite(errors.largest):
            return Distance(math.inf, self._reference_errors.largest, 0.0, bool(np.isfinite(values).all()))
        slack = self._slack
        if self._row_scales is not None:
            return self._judge_rows(values)
        floor = self._floor
        multiple = slack.reference * REFERENCE_MULTIPLE
        even = floor - self._roundings * (1 - EVEN_ROUNDINGS)  # of all elements roundings average out
        pairs = (
            (errors.largest, self._reference_errors.largest, floor),
            (errors.l2, self._reference_errors.l2, even),
        )
        judged = [Distance(e, r, max(multiple * r, least)) for e, r, least in pairs]
        if self._moved is not None:
            judged = self._judge_moved(values, self._moved, *judged)
        return max(judged, key=lambda distance: distance.error / distance.allowed)

    def _judge_moved(self, values: Array, moved: Array, largest: Distance, l2: Distance) -> list[Distance]:
        """Judge again with what each element may move by.

        The first distance returned belongs to the element whose error is largest relative to its allowance.
        """
        scale = max(self._rms, _TINY)
        worst, share, squares = largest, 0.0, 0.0
        for x, high, low, by in _chunks(values, self._high, self._low, moved):
            sizes = np.abs(high) + scale
            errors = np.abs((x - high) - low) / sizes
            allowed = np.maximum(largest.allowed, by / sizes)
            shares = errors / allowed
            squares += _squares(by / scale)
            i = int(shares.argmax())
            if shares[i] > share:
                share = float(shares[i])
                worst = Distance(float(errors[i]), largest.reference_error, float(allowed[i]))
        allowed_l2 = max(l2.allowed, math.sqrt(squares / max(values.size, 1)))
        return [worst, Distance(l2.error, l2.reference_error, allowed_l2)]

    def _judge_rows(self, values: Array) -> Distance:
        """Judge every row by its own scale and by the reference's error in it."""
        assert self._row_scales is not None
        slack = self._slack
        floor = self._floor
        worst, share = Distance(0.0, 0.0, floor), -1.0
        for rows, x, high, low in self._rows(values, self._high, self._low):
            scales, known = self._row_scales[rows, None], self._row_errors[rows, None]
            sizes = np.abs(high) + scales
            errors = np.abs((x - high) - low) / sizes
            allowed = np.maximum(slack.reference * REFERENCE_MULTIPLE * known, floor) + np.zeros_like(errors)
            if self._moved is not None:
                moved = self._moved[rows.start * self._width :][: errors.size].reshape(errors.shape)
                allowed = np.maximum(allowed, moved / sizes)
            i = int((errors / allowed).argmax())
            if errors.flat[i] / allowed.flat[i] > share:
                share = float(errors.flat[i] / allowed.flat[i])
                reference_error = float(known[i // self._width, 0])
                worst = Distance(float(errors.flat[i]), reference_error, float(allowed.flat[i]))
        return worst

    def _errors_by_row(self, values: Array) -> Array:
        """Return the largest scaled error of every row."""
        assert self._row_scales is not None
        errors = np.zeros(self._row_scales.size, self._row_scales.dtype)
        for rows, x, high, low in self._rows(values, self._high, self._low):
            gap = np.abs((x - high) - low) / (np.abs(high) + self._row_scales[rows, None])
            errors[rows] = gap.max(axis=1, initial=0.0)
        return errors

    def _rows(self, *arrays: Array) -> Iterator[tuple[Any, ...]]:
        """Yield which rows, and them from every array, so many at a time that they stay in the cache."""
        n_rows, step = arrays[0].size // self._width, max(_CHUNK // self._width, 1)
        for start in range(0, n_rows, step):
            part = slice(start * self._width, min(start + step, n_rows) * self._width)
            yield (slice(start, start + step), *(array[part].reshape(-1, self._width) for array in arrays))

    def _judge_exact(self, raw: Array) -> Distance:
        x, reference, oracle = (a.view(np.dtype(self.dtype)) for a in (raw, self._reference, self._oracle))
        if self._loose is None:
            n_wrong = sum(int(((a != b) & (a != c)).sum()) for a, b, c in _chunks(x, reference, oracle))
        else:
            is_wrong = (x != reference) & (x != oracle) & ~self._loose.allows(x)
            n_wrong = int(is_wrong.sum()) + _n_repeated(x, oracle, self._width)
        return Distance(n_wrong / max(x.size, 1), 0.0, 0.0)

    def _judge_allclose(self, values: Array) -> Distance:
        worst = 0.0
        for x, r in _chunks(values, decode(self._reference, self.dtype)):
            gap = np.abs(x.astype(np.float64) - r)
            worst = max(worst, _largest(gap / (1.0 + np.abs(r))))
        is_finite = math.isfinite(worst) or bool(np.isfinite(values).all())
        return Distance(worst, 0.0, KERNELBENCH_TOLERANCE, is_finite)

    def _errors(self, values: Array) -> _Errors:
        largest, squares = 0.0, 0.0
        scale_floor = max(self._rms, _TINY)
        with np.errstate(all="ignore"):
            for x, high, low in _chunks(values, self._high, self._low):
                gap = (x - high) - low
                largest = max(largest, _largest(np.abs(gap) / (np.abs(high) + gap.dtype.type(scale_floor))))
                squares += _squares(gap / gap.dtype.type(scale_floor))
        if not math.isfinite(squares):
            return _Errors(largest if math.isnan(largest) else math.inf, math.inf)
        return _Errors(largest, math.sqrt(squares / max(values.size, 1)))


class _Loose:
    """Which elements of an exact dtype hang on the last bits of the inputs, and what they may be."""

    def __init__(self, reference: Array, oracle: Array) -> None:
        self._low, self._high = np.minimum(reference, oracle), np.maximum(reference, oracle)
        self._is_torn = np.zeros(oracle.size, np.bool_)
        ends: tuple[Any, Any] = (oracle.min(), oracle.max()) if oracle.size else (0, 0)
        self._least, self._most = ends
        self.add(reference, oracle, is_open=False)

    def add(self, reference: Array, oracle: Array, *, is_open: bool) -> bool:
        """Add results on moved inputs; returns whether any of them are new."""
        is_new = any(bool(((x < self._low) | (x > self._high)).any()) for x in (reference, oracle))
        for x in (reference, oracle):
            np.minimum(self._low, x, out=self._low)
            np.maximum(self._high, x, out=self._high)
        gap = np.abs(reference.astype(np.float64) - oracle)
        self._is_torn |= gap > np.maximum(1.0, np.abs(oracle.astype(np.float64)) * TORN)
        if is_open:
            self._is_torn |= self._low != self._high
        return is_new

    def allows(self, values: Array) -> Array:
        """Tell which values could be right.

        They lie where results were, or as far again to either side. Where float32 and float64 are at odds, or
        the order of equal values is open, any value that the output holds could be.
        """
        low, high = self._low.astype(np.float64), self._high.astype(np.float64)
        room = high - low
        inside = (room > 0) & (values >= low - room) & (values <= high + room)
        held = self._is_torn & (values >= self._least) & (values <= self._most)
        allowed: Array = inside | held
        return allowed


class ExpectedNonFinite(ExpectedOutput):
    """What one output must be close to on inputs that hold NaN and infinity.

    Where the reference and the oracle are both not finite, so must the output be; elsewhere it is judged as
    ever.
    """

    def __init__(
        self, dtype: str, reference: Array, oracle: Array, *, is_exact: bool, hangs: Array | None = None,
        **how: Any,
    ) -> None:  # fmt: skip
        """``is_exact``: NaN stays NaN, and infinities have the reference's sign.

        ``hangs``: elements that finite values in the places of NaN and infinity change; all others may be
        finite or not, since a kernel need not read what does not count. None: all elements do.
        """
        parts = COMPLEX_PARTS.get(dtype, dtype)
        self._is_exact = is_exact
        self._asked, self._open, self._kinds = _NOTHING, _NOTHING, _NOTHING
        if is_float(dtype):
            values, truth = decode(reference, parts).copy(), oracle.view(np.float64).copy()
            kinds, true_kinds = _kinds(values), _kinds(truth)
            self._open = (kinds != 0) | (true_kinds != 0)
            self._asked = kinds == true_kinds if is_exact else (kinds != 0) == (true_kinds != 0)
            self._kinds = kinds
            if hangs is not None:
                self._asked &= hangs | (kinds == 0)
            truth[self._open] = 0.0
            oracle, reference = truth.view(np.uint8), _with_zeros(reference, parts, self._open)
        super().__init__(dtype, reference, oracle, **how)

    def judge(self, raw: Array) -> Distance:
        """Compare an output's raw row-major bytes."""
        if not is_float(self.dtype):
            return super().judge(raw)
        kinds, wanted = _kinds(decode(raw, self.dtype)), self._kinds
        is_wrong = kinds != wanted if self._is_exact else (kinds != 0) != (wanted != 0)
        n_wrong = int((is_wrong & self._asked).sum())
        if n_wrong:
            return Distance(n_wrong / max(kinds.size, 1), 0.0, 0.0, is_same_kind=False)
        return super().judge(_with_zeros(raw, self.dtype, self._open))


def _n_repeated(values: Array, oracle: Array, width: int) -> int:
    """Return how many values are there more than once in a row in which the oracle's all differ."""
    if width < 2 or values.dtype == np.bool_:
        return 0
    ours, theirs = (np.sort(a.reshape(-1, width), axis=1) for a in (values, oracle))
    differ = (theirs[:, 1:] != theirs[:, :-1]).all(axis=1)
    return int((ours[differ, 1:] == ours[differ, :-1]).sum())


def _kinds(values: Array) -> Array:
    """Return 0 for a finite number, 1 for NaN, 2 and 3 for the infinities."""
    kinds = np.zeros(values.size, np.uint8)
    kinds[np.isnan(values)] = 1
    kinds[np.isposinf(values)] = 2
    kinds[np.isneginf(values)] = 3
    return kinds


def _with_zeros(raw: Array, dtype: str, where: Array) -> Array:
    """Return a copy of raw numbers with zeros in some places."""
    bits = raw.copy().view(np.dtype(f"u{raw.size // max(where.size, 1)}")) if where.size else raw.copy()
    if where.size:
        bits[where] = 0
    return bits.view(np.uint8)


def distance_between(dtype: str, one: Array, other: Array, least_scale: float = 0.0) -> float:
    """Return the largest scaled difference of two raw outputs; for exact dtypes the share that differs."""
    parts = COMPLEX_PARTS.get(dtype, dtype)
    left, right = decode(one, parts), decode(other, parts)
    if left.size == 0:
        return 0.0
    if not is_float(parts):
        return float((left != right).mean())
    with np.errstate(all="ignore"):
        squares = sum(_squares(part.astype(np.float64)) for (part,) in _chunks(left))
        scale = left.dtype.type(max(math.sqrt(squares / left.size), least_scale, _TINY))
        return max(_largest(np.abs(a - b) / (np.abs(a) + scale)) for a, b in _chunks(left, right))


def row_width(shape: Sequence[int]) -> int:
    """Return the elements of a row of an output: what lies along the last axis, where there are several."""
    count = math.prod(shape)
    return int(shape[-1]) if shape and count > shape[-1] > 0 else 1


def image_width(shape: Sequence[int]) -> int:
    """Return the elements of an image of an output: what lies along all axes but the first."""
    return math.prod(shape[1:]) if len(shape) > 1 and shape[0] > 0 else row_width(shape)


def decode(raw: Array, dtype: str) -> Array:
    """Return raw bytes as numbers; half precisions are widened to float32."""
    if dtype == "bfloat16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype == "float16":
        return raw.view(np.float16).astype(np.float32)
    return raw.view(np.dtype(dtype))


def _split(truth: Array, dtype: str, storage: Storage) -> tuple[Array, Array]:
    """Split float64 into two float32 whose sum has 48 correct bits, so that comparing stays in float32."""
    if dtype == "float64":
        return truth.copy(), np.zeros(truth.size, np.float64)
    if "split" not in storage:
        storage["split"] = np.empty((2, truth.size), np.float32)
    high, low = storage["split"]
    with np.errstate(all="ignore"):
        for part, big, small in _chunks(truth, high, low):  # no large temporaries: fresh pages are slow
            big[:] = part
            small[:] = part - big
    return high, low


def _row_scales(truth: Array, width: int) -> Array:
    """Return the scale of every row: its root mean square, at least that of the middle row."""
    rows = truth.reshape(-1, width)
    rms = np.sqrt(np.einsum("ij,ij->i", rows, rows) / width)
    middle = float(np.median(rms[:: max(rms.size // _CHUNK, 1)])) if rms.size else 0.0
    scales: Array = np.maximum(rms, max(middle, _TINY))
    return scales


def _squares(values: Array) -> float:
    """Return the sum of squares, without BLAS: its threads wait for each other on a busy machine."""
    return float(np.einsum("i,i->", values, values))


def _chunks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    for start in range(0, arrays[0].size, _CHUNK):
        yield tuple(array[start : start + _CHUNK] for array in arrays)


def _largest(values: Array) -> float:
    """Return the maximum, NaN as infinity."""
    largest = float(values.max(initial=0.0))
    return math.inf if math.isnan(largest) else largest
