"""A Gaussian process over the points of several machines: what measurements say of points nobody measured.

A time, as a logarithm, is the machine's level, plus what each value does alone, plus what values do together.
Machines share both parts to a degree. How quickly times change along each name, the shares and the noise are
fitted to the measurements, by the likelihood.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kernelwright.tuning.encoding import Encoding

Array: TypeAlias = "np.ndarray"
LEVEL, MODEL_DOUBT = 1.0, 0.25
"""Prior variance of a machine's level, and of the share of the model that is wrong; over the signal's."""
STEPS = (0.35, 3.0)
"""What one step of the fit multiplies a relevance by."""
FITTED_AT_ONCE = 10
"""Relevances that one fit goes through; the next one goes on with the others."""
JOINT, SHARED, NOISE = (0.3, 0.6, 0.9), (0.0, 0.4, 0.7, 0.9, 0.97), (0.001, 0.005, 0.02, 0.1)
"""Values that the fit tries."""
SHARED_BEFORE, DOUBT_IN_SHARES = 0.7, 10.0
"""Correlation of machines that is expected beforehand, and what the square of a difference from it costs."""
LEAST_POINTS, GROWN = 4, 1.2
"""Below so many nothing is fitted; and again when there are so many times the points."""
HUGE = 1e9
SCALE, SCALE_WORTH = 0.1, 2.0
"""Variance of logarithms that is expected beforehand, and how many points that is worth."""


@dataclass
class Shape:
    """What is fitted; carried from one generation to the next."""

    relevance: dict[str, float] = field(default_factory=dict)
    """Of a name: how quickly times change along its values."""
    joint: float = 0.6
    """Share of the variance that is of values together, not of each alone."""
    shared: dict[int, float] = field(default_factory=dict)
    """Correlation of each other machine with the one that is tuned."""
    noise: float = 0.02
    """Variance over that of the signal."""
    turn: int = 0
    """Relevances that were gone through so far."""
    fitted: int = 0
    """Own points when it was fitted last."""


@dataclass(frozen=True)
class Rows:
    """Points as the process sees them."""

    values: Array
    """A row of the encoding each."""
    model: Array
    """Logarithm of the modelled time; 0: there is none."""
    machine: Array
    """Number of the machine; 0 is the one that is tuned."""


class Process:
    """The process, given measurements."""

    def __init__(self, encoding: Encoding, rows: Rows, targets: Array, shape: Shape) -> None:
        """Fit ``shape``, which is changed, to the measurements: logarithms, without what the model says."""
        self._encoding, self._rows, self._targets, self._shape = encoding, rows, targets, shape
        for name in encoding.names:
            shape.relevance.setdefault(name, 3.0 / math.sqrt(len(encoding.names)))
        for machine in range(1, 1 + int(rows.machine.max(initial=0))):
            shape.shared.setdefault(machine, SHARED_BEFORE)
        own = int((rows.machine == 0).sum())
        if len(targets) >= LEAST_POINTS and own >= GROWN * shape.fitted:
            _Fit(self, encoding, rows).run(shape)
            shape.fitted = own
        self._lower = np.linalg.cholesky(self.covariance(self._alike(rows.values, rows.values)))
        self._weights = np.linalg.solve(self._lower, targets)
        self._scale = _variance(self._weights)

    def predict(self, rows: Rows) -> "Prediction":
        """Return what is known of points of the machine that is tuned."""
        same = self._rows.machine == 0
        cross = self._alike(rows.values, self._rows.values) * self._shares()
        cross += (LEVEL + MODEL_DOUBT * np.outer(rows.model, self._rows.model)) * same
        solved = np.linalg.solve(self._lower, cross.T)
        before = 1.0 + LEVEL + MODEL_DOUBT * rows.model**2
        variance = self._scale * np.maximum(before - (solved**2).sum(axis=0), 1e-9)

        def covariance(number: int) -> Array:
            known: Array = self._alike(rows.values[[number]], rows.values)[0] + LEVEL
            known = known + MODEL_DOUBT * rows.model[number] * rows.model
            left: Array = self._scale * (known - solved[:, number] @ solved)
            return left

        noise = self._scale * self._shape.noise
        return Prediction(rows.model + solved.T @ self._weights, variance, covariance, noise)

    def covariance(self, alike: Array) -> Array:
        """Return the covariance of all measurements over the signal's variance, with its noise."""
        rows = self._rows
        same = rows.machine[:, None] == rows.machine[None]
        shares = self._shares()
        found: Array = alike * np.where(same, 1.0, np.outer(shares, shares))
        found = found + (LEVEL + MODEL_DOUBT * np.outer(rows.model, rows.model)) * same
        found[np.diag_indices(len(found))] += self._shape.noise
        return found

    def likelihood(self, alike: Array) -> float:
        """Return the logarithm of how likely the measurements are, but for a constant."""
        count = len(self._targets)
        bordered = np.empty((count + 1, count + 1))
        bordered[:count, :count] = self.covariance(alike)
        bordered[count, :count] = bordered[:count, count] = self._targets
        bordered[count, count] = HUGE  # so the last row of the root is the root's inverse times the targets
        try:
            lower = np.linalg.cholesky(bordered)
        except np.linalg.LinAlgError:
            return -math.inf
        determinant = np.log(np.diag(lower)[:count]).sum()
        spread = _variance(lower[count, :count])
        return float(-0.5 * (count + SCALE_WORTH) * math.log(spread) - determinant)

    def _shares(self) -> Array:
        """Return for each measurement the correlation of its machine with the one that is tuned."""
        of_machine = {0: 1.0, **self._shape.shared}
        return np.array([of_machine[int(machine)] for machine in self._rows.machine])

    def _alike(self, left: Array, right: Array) -> Array:
        """Return the correlation of points on one machine."""
        shape, names = self._shape, self._encoding.names
        together, alone = np.zeros((2, len(left), len(right)))
        for name in names:
            part = shape.relevance[name] * apart(left, right, self._encoding.columns(name))
            together += part
            alone += np.exp(-part)
        return mixed(shape.joint, together, alone, len(names))


@dataclass(frozen=True)
class Prediction:
    """Logarithms of times, as far as they are known."""

    mean: Array
    variance: Array
    covariance: Callable[[int], Array]
    """Of one point with all."""
    noise: float
    """Variance of one measurement."""

    def promising(self, best: float, count: int) -> list[int]:
        """Return the points to try next, the most promising first.

        Each is the one that is expected to improve most on the best time. One that is chosen takes away the
        doubt about those beside it, so the next ones lie elsewhere.
        """
        variance = self.variance.copy()
        chosen: list[int] = []
        known: list[Array] = []
        for _ in range(min(count, len(variance))):
            gain = _expected_gain(best - self.mean, np.sqrt(np.maximum(variance, 1e-12)))
            gain[chosen] = -1.0
            number = int(np.argmax(gain))
            learned = self.covariance(number) - sum((one[number] * one for one in known), np.zeros(1))
            learned = learned / math.sqrt(max(float(variance[number]), 1e-12) + self.noise)
            variance = variance - learned**2
            known.append(learned)
            chosen.append(number)
        return chosen


class _Fit:
    """One pass over the quantities of a shape, each changed where that makes the measurements likelier."""

    def __init__(self, process: Process, encoding: Encoding, rows: Rows) -> None:
        self._process, self._names = process, encoding.names
        self._apart = {n: apart(rows.values, rows.values, encoding.columns(n)) for n in encoding.names}
        self._together = self._alone = np.zeros((len(rows.values), len(rows.values)))

    def run(self, shape: Shape) -> None:
        """Change the shape."""
        for name, distance in self._apart.items():
            self._together = self._together + shape.relevance[name] * distance
            self._alone = self._alone + np.exp(-shape.relevance[name] * distance)
        best = self._score(shape, self._together, self._alone)
        some = [self._names[(shape.turn + i) % len(self._names)] for i in range(self._n_at_once)]
        shape.turn += len(some)
        for name in some:
            best = self._relevance(shape, name, best)
        for machine in shape.shared:
            best = self._share(shape, machine, best)
        for quantity, values in (("joint", JOINT), ("noise", NOISE)):
            best = self._choose(shape, quantity, values, best)

    @property
    def _n_at_once(self) -> int:
        return min(FITTED_AT_ONCE, len(self._names))

    def _relevance(self, shape: Shape, name: str, best: float) -> float:
        before, distance = shape.relevance[name], self._apart[name]
        for step in STEPS:
            together = self._together + (step - 1) * before * distance
            alone = self._alone + np.exp(-step * before * distance) - np.exp(-before * distance)
            shape.relevance[name] = step * before
            found = self._score(shape, together, alone)
            if found > best:
                self._together, self._alone = together, alone
                return found
        shape.relevance[name] = before
        return best

    def _share(self, shape: Shape, machine: int, best: float) -> float:
        chosen = shape.shared[machine]
        for value in SHARED:
            shape.shared[machine] = value
            found = self._score(shape, self._together, self._alone)
            if found > best:
                best, chosen = found, value
        shape.shared[machine] = chosen
        return best

    def _choose(self, shape: Shape, quantity: str, values: tuple[float, ...], best: float) -> float:
        chosen = getattr(shape, quantity)
        for value in values:
            setattr(shape, quantity, value)
            found = self._score(shape, self._together, self._alone)
            if found > best:
                best, chosen = found, value
        setattr(shape, quantity, chosen)
        return best

    def _score(self, shape: Shape, together: Array, alone: Array) -> float:
        """Return the likelihood, less what odd shapes cost: few points must not decide for one."""
        odd = sum(math.log(shape.relevance[name]) ** 2 for name in self._names) / 8
        odd += DOUBT_IN_SHARES * sum((share - SHARED_BEFORE) ** 2 for share in shape.shared.values())
        return self._process.likelihood(mixed(shape.joint, together, alone, len(self._names))) - odd


def apart(left: Array, right: Array, columns: slice) -> Array:
    """Return the squared distance of rows along some columns."""
    a, b = left[:, columns], right[:, columns]
    found: Array = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    return found.clip(0.0)


def mixed(joint: float, together: Array, alone: Array, n_names: int) -> Array:
    """Return the correlation from what values do together and what each does alone."""
    if not n_names:
        return np.ones_like(together)
    found: Array = joint * np.exp(-together) + (1 - joint) * alone / n_names
    return found


def _variance(weights: Array) -> float:
    return float((weights @ weights + SCALE_WORTH * SCALE) / (len(weights) + SCALE_WORTH))


def _expected_gain(ahead: Array, doubt: Array) -> Array:
    """Return by how much each point is expected to be below the best, those above counting nothing."""
    z = ahead / doubt
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-one / math.sqrt(2)) for one in z])
    found: Array = ahead * below + doubt * density
    return found
