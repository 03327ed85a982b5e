"""The process behind the guesses: what it learns of values, of values together, and of other machines."""

import math
import random

import numpy as np
import pytest

from kernelwright.core.plan import ParamValue
from kernelwright.memory.tuned import EarlierTuning
from kernelwright.tuning.encoding import Encoding
from kernelwright.tuning.guessing import Guess
from kernelwright.tuning.process import Prediction, Shape

Values = dict[str, ParamValue]
GRID: list[Values] = [
    {"TILE": tile, "UNROLL": unroll, "WAY": way}
    for tile in (8, 16, 32, 64, 128)
    for unroll in (1, 2, 4, 8)
    for way in ("rows", "columns")
]
DEFAULT = GRID[0]


def log_time(values: Values, best_tile: int = 64) -> float:
    tile, unroll = float(values["TILE"]), float(values["UNROLL"])
    apart = abs(math.log2(tile / best_tile)) + abs(math.log2(unroll / 4))
    return 0.4 * apart + (0.5 if values["WAY"] == "rows" else 0.0)


def known(count: int, seed: int = 0) -> list[tuple[Values, None, float]]:
    return [(v, None, math.exp(log_time(v))) for v in random.Random(seed).sample(GRID, count)]


def error(guess: Guess) -> float:
    return max(abs(math.log(guess.ratio(v, None)) - log_time(v)) for v in GRID)


def test_numbers_lie_between_their_neighbours_and_words_are_equally_far_apart() -> None:
    rows = Encoding(GRID, DEFAULT).rows(GRID)
    at = {(v["TILE"], v["UNROLL"], v["WAY"]): row for v, row in zip(GRID, rows, strict=True)}
    near, far = (np.linalg.norm(at[8, 1, "rows"] - at[tile, 1, "rows"]) for tile in (16, 128))
    assert near < far == pytest.approx(1.0)
    assert np.linalg.norm(at[8, 1, "rows"] - at[8, 1, "columns"]) == pytest.approx(1.0)


def test_a_name_that_is_left_out_has_its_default_and_a_new_value_is_no_fault() -> None:
    encoding = Encoding(GRID, DEFAULT)
    assert (encoding.rows([{}]) == encoding.rows([DEFAULT])).all()
    assert np.isfinite(encoding.rows([{"WAY": "diagonal", "OTHER": 3}])).all()


def test_more_points_make_better_guesses() -> None:
    assert error(Guess(known(30), DEFAULT)) < error(Guess(known(6), DEFAULT))


def test_a_machine_that_is_alike_is_believed() -> None:
    same = EarlierTuning.of("same", [(v, 3 * math.exp(log_time(v))) for v in GRID])
    alone, helped = Guess(known(6), DEFAULT), Guess(known(6), DEFAULT, [same])
    assert error(helped) < error(alone)


def test_a_machine_that_answers_otherwise_is_believed_less() -> None:
    same = EarlierTuning.of("same", [(v, math.exp(log_time(v))) for v in GRID])
    opposite = EarlierTuning.of("opposite", [(v, math.exp(-log_time(v))) for v in GRID])
    shape = Shape()
    Guess(known(24), DEFAULT, [same, opposite], shape)
    assert shape.shared[2] < shape.shared[1]


def test_points_that_are_chosen_are_promising_and_lie_apart() -> None:
    shape = Shape()
    guess = Guess(known(24), DEFAULT, shape=shape)
    chosen = [GRID[number] for number in guess.choose(GRID, [None] * len(GRID), 4)]
    assert len({tuple(v.items()) for v in chosen}) == 4
    assert min(map(log_time, chosen)) <= sorted(map(log_time, GRID))[2]
    assert guess.choose([], [], 4) == []


def test_a_point_takes_the_doubt_about_its_twin() -> None:
    covariance = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.9]])
    known = Prediction(np.zeros(3), np.diag(covariance).copy(), lambda number: covariance[number], 0.01)
    assert known.promising(0.0, 2) == [0, 2]
