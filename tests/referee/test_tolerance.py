"""The tolerance policy on known-good and known-bad outputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.task import TolerancePolicy
from kernelwright.referee.checks.tolerance import (
    Array,
    ExpectedNonFinite,
    ExpectedOutput,
    Slack,
    distance_between,
)

U = 2.0**-23
"""A unit in the last place of float32."""


def expect(
    reference: Array, oracle: Array, policy: TolerancePolicy = TolerancePolicy.STRICT, ratio: float = 1.0
) -> ExpectedOutput:
    return ExpectedOutput("float32", _raw(reference), _raw(oracle), policy=policy, inputs_per_output=ratio)


def _raw(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8)


def _truth(n: int = 200_000) -> Array:
    return np.random.default_rng(0).normal(size=n)


def test_the_rounded_oracle_is_close() -> None:
    truth = _truth()
    assert expect(truth.astype(np.float32), truth).judge(_raw(truth.astype(np.float32))).is_close


def _to_bits(values: Array, bits: int) -> Array:
    shift = 23 - bits
    whole = values.astype(np.float32).view(np.uint32)
    return (((whole >> shift) + ((whole >> (shift - 1)) & 1)) << shift).view(np.float32)


@pytest.mark.parametrize(
    ("bits", "policy", "is_close"),
    [
        (7, TolerancePolicy.STRICT, False),
        (10, TolerancePolicy.STRICT, False),
        (10, TolerancePolicy.TF32, True),
        (7, TolerancePolicy.TF32, False),
        (7, TolerancePolicy.BF16, True),
        (4, TolerancePolicy.BF16, False),
    ],
)
def test_fewer_mantissa_bits_pass_only_where_the_policy_says_so(
    bits: int, policy: TolerancePolicy, is_close: bool
) -> None:
    truth = _truth()
    distance = expect(truth.astype(np.float32), truth, policy).judge(_raw(_to_bits(truth, bits)))
    assert distance.is_close is is_close, distance


def test_an_ill_conditioned_reference_permits_as_much_error_as_it_has() -> None:
    truth = _truth()
    noise = 1e-3 * np.random.default_rng(1).normal(size=truth.size)
    expected = expect((truth + noise).astype(np.float32), truth)
    assert expected.judge(_raw((truth - noise).astype(np.float32))).is_close
    assert not expected.judge(_raw((truth - 20 * noise).astype(np.float32))).is_close


def test_one_wrong_element_among_many_is_found() -> None:
    truth = _truth()
    wrong = truth.astype(np.float32)
    wrong[123_456] += 1e-3
    assert not expect(truth.astype(np.float32), truth).judge(_raw(wrong)).is_close


def test_nan_is_not_finite_and_never_close() -> None:
    truth = _truth(1000)
    wrong = truth.astype(np.float32)
    wrong[7] = np.nan
    distance = expect(truth.astype(np.float32), truth).judge(_raw(wrong))
    assert not distance.is_finite and not distance.is_close


def test_a_non_finite_reference_is_noticed() -> None:
    truth = _truth(10)
    truth[3] = np.inf
    assert not expect(truth.astype(np.float32), truth).is_finite


def test_where_the_truth_is_zero_only_zero_will_do() -> None:
    truth = np.zeros(10)
    expected = expect(truth.astype(np.float32), truth)
    assert expected.judge(_raw(np.zeros(10, np.float32))).is_close
    assert not expected.judge(_raw(np.full(10, 1e-6, np.float32))).is_close


def test_integers_must_equal_the_reference_or_the_oracle() -> None:
    reference, oracle = np.array([1, 2, 3]), np.array([1, 2, 4])
    policy = TolerancePolicy.STRICT
    expected = ExpectedOutput("int64", _raw(reference), _raw(oracle), policy=policy, inputs_per_output=1.0)
    assert expected.judge(_raw(reference)).is_close and expected.judge(_raw(oracle)).is_close
    assert not expected.judge(_raw(np.array([0, 2, 3]))).is_close


def _integers(reference: list[int], oracle: list[int]) -> ExpectedOutput:
    raw = (np.array(values, np.int64) for values in (reference, oracle))
    return ExpectedOutput(
        "int64", *map(_raw, raw), policy=TolerancePolicy.STRICT, inputs_per_output=64, width=4
    )


def _moved(expected: ExpectedOutput, reference: list[int], oracle: list[int], *, is_open: bool) -> None:
    raw = (np.array(values, np.int64) for values in (reference, oracle))
    expected.widen_exact(*map(_raw, raw), is_open=is_open)


def _is_close(expected: ExpectedOutput, *values: int) -> bool:
    return expected.judge(_raw(np.array(values, np.int64))).is_close


def test_integers_that_move_with_the_last_bits_may_differ_by_as_much_and_no_others() -> None:
    expected = _integers([5, 5, 7, 9], [5, 5, 7, 9])
    _moved(expected, [5, 6, 7, 9], [5, 6, 7, 9], is_open=False)
    assert _is_close(expected, 5, 6, 7, 9) and _is_close(expected, 5, 4, 7, 9)
    assert not _is_close(expected, 5, 9, 7, 9) and not _is_close(expected, 6, 5, 7, 9)


def test_where_float32_and_float64_choose_different_indices_any_index_will_do() -> None:
    expected = _integers([40, 3, 60, 2], [9, 3, 60, 2])
    _moved(expected, [40, 3, 60, 2], [9, 3, 60, 2], is_open=False)
    assert _is_close(expected, 55, 3, 60, 2)
    assert not _is_close(expected, 90, 3, 60, 2) and not _is_close(expected, 40, 5, 60, 2)


def test_an_open_order_may_differ_but_no_index_comes_twice() -> None:
    expected = _integers([4, 6, 8, 1], [4, 6, 8, 1])
    _moved(expected, [6, 4, 8, 1], [4, 8, 6, 1], is_open=True)
    assert _is_close(expected, 8, 6, 4, 1)
    assert not _is_close(expected, 8, 8, 4, 1) and not _is_close(expected, 4, 6, 1, 8)


def test_kernelbench_policy_is_allclose_at_1e_4() -> None:
    truth = _truth(1000)
    reference = truth.astype(np.float32)
    expected = expect(reference, truth, TolerancePolicy.KERNELBENCH)
    assert expected.judge(_raw(reference + np.float32(5e-5))).is_close
    assert not expected.judge(_raw(reference * np.float32(1.001))).is_close


@settings(max_examples=40)
@given(scale=st.floats(1e-20, 1e20), seed=st.integers(0, 1000))
def test_distance_does_not_depend_on_the_scale(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=100)
    wrong = truth * (1 + 1e-3 * rng.normal(size=100))
    one = expect(truth.astype(np.float32), truth).judge(_raw(wrong.astype(np.float32)))
    other = expect((truth * scale).astype(np.float32), truth * scale).judge(
        _raw((wrong * scale).astype(np.float32))
    )
    assert other.error == pytest.approx(one.error, rel=1e-2)
    assert not other.is_close


def test_half_precisions_are_read_right() -> None:
    values = np.array([1.0, -2.5, 0.15625], np.float32)
    bf16 = (values.view(np.uint32) >> 16).astype(np.uint16)
    assert distance_between("bfloat16", _raw(bf16), _raw(bf16)) == 0.0
    half = ExpectedOutput(
        "bfloat16", _raw(bf16), _raw(values.astype(np.float64)), policy=TolerancePolicy.STRICT,
        inputs_per_output=1.0,
    )  # fmt: skip
    assert half.judge(_raw(bf16)).error == 0.0


@pytest.mark.parametrize(("by", "is_close"), [(1.01, True), (1.25, False)])
@pytest.mark.parametrize("slack", [Slack(), Slack(reference=4.0, floor=32.0, is_by_row=True)])
def test_half_precision_permits_roundings_and_no_more(by: float, is_close: bool, slack: Slack) -> None:
    values = (np.random.default_rng(0).normal(size=4096).astype(np.float32).view(np.uint32) >> 16) << 16
    truth = values.view(np.float32).astype(np.float64)
    wrong = ((truth * by).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    half = ExpectedOutput(
        "bfloat16", _raw((values >> 16).astype(np.uint16)), _raw(truth), policy=TolerancePolicy.STRICT,
        inputs_per_output=1024.0, slack=slack, width=64,
    )  # fmt: skip
    half.widen(_raw(truth * (1 + 2.0**-7)), 2.0**-7)
    assert half.judge(_raw(wrong)).is_close is is_close


def test_moving_half_inputs_by_a_unit_permits_no_half_precision_arithmetic() -> None:
    truth = _truth(1000)
    expected = expect(truth.astype(np.float32), truth)
    expected.widen(_raw(truth * (1 + 2.0**-7)), 2.0**-7)
    assert not expected.judge(_raw((truth * (1 + 2.0**-12)).astype(np.float32))).is_close


def test_slack_widens_what_is_allowed_and_nothing_else() -> None:
    oracle = np.linspace(1, 2, 64)
    strict, slack = (
        ExpectedOutput(
            "float32",
            _raw(oracle.astype(np.float32)),
            _raw(oracle),
            policy=TolerancePolicy.STRICT,
            inputs_per_output=1.0,
            slack=Slack(factor, factor),
        )
        for factor in (1.0, 2.0)
    )
    raw = _raw((oracle * (1 + 4e-6)).astype(np.float32))
    assert slack.judge(raw).allowed == 2 * strict.judge(raw).allowed
    assert slack.judge(raw).error == strict.judge(raw).error


def test_where_the_oracle_moves_with_the_last_bits_more_is_allowed_and_only_there() -> None:
    truth, moved = _truth(1000), _truth(1000)
    moved[7] += 1e-4
    near, elsewhere = truth.astype(np.float32), truth.astype(np.float32)
    near[7] += 3e-4
    elsewhere[8] += 3e-4
    expected = expect(truth.astype(np.float32), truth)
    assert not expected.judge(_raw(near)).is_close
    expected.widen(_raw(moved))
    assert expected.judge(_raw(near)).is_close
    assert not expected.judge(_raw(elsewhere)).is_close
    near[7] += 1e-2
    assert not expected.judge(_raw(near)).is_close


def test_the_furthest_that_an_element_moved_counts_and_nan_does_not() -> None:
    truth = _truth(100)
    expected = expect(truth.astype(np.float32), truth)
    for by in (1e-4, np.nan, 0.0):
        moved = truth.copy()
        moved[7] += by
        expected.widen(_raw(moved))
    wrong = truth.astype(np.float32)
    wrong[7] += 3e-4
    assert expected.judge(_raw(wrong)).is_close
    wrong[8] += 3e-4
    assert not expected.judge(_raw(wrong)).is_close


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(1, 5000))
def test_widening_permits_no_fewer_bits_where_the_problem_is_well_conditioned(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n) + 3
    expected = expect(truth.astype(np.float32), truth)
    expected.widen(_raw(truth * (1 + 2.0**-23 * rng.choice([-1, 1], size=n))))
    assert expected.judge(_raw(truth.astype(np.float32))).is_close
    assert not expected.judge(_raw((truth * (1 + 2.0**-12)).astype(np.float32))).is_close


BY_ROW = Slack(is_by_row=True)


def by_row(reference: Array, oracle: Array, width: int) -> ExpectedOutput:
    return ExpectedOutput(
        "float32", reference.view(np.uint8), oracle.view(np.uint8), policy=TolerancePolicy.STRICT,
        inputs_per_output=1, slack=BY_ROW, width=width,
    )  # fmt: skip


def test_a_huge_row_hides_nothing_in_the_others_where_rows_are_judged_apart() -> None:
    truth = np.random.default_rng(0).standard_normal((8, 16))
    truth[3] *= 1e20
    reference = truth.astype(np.float32)
    wrong = reference.copy()
    wrong[5, 2] += 0.1
    raw = wrong.reshape(-1).view(np.uint8)
    as_one = ExpectedOutput(
        "float32", reference.reshape(-1).view(np.uint8), truth.reshape(-1).view(np.uint8),
        policy=TolerancePolicy.STRICT, inputs_per_output=1,
    )  # fmt: skip
    apart = by_row(reference.reshape(-1), truth.reshape(-1), 16)
    assert as_one.judge(raw).is_close and not apart.judge(raw).is_close
    assert apart.judge(reference.reshape(-1).view(np.uint8)).is_close


def test_the_references_error_in_one_row_allows_nothing_in_another() -> None:
    truth = np.ones((4, 8))
    reference = truth.astype(np.float32)
    reference[0] += 0.01
    wrong = truth.astype(np.float32)
    wrong[2] += 0.01
    expected = by_row(reference.reshape(-1), truth.reshape(-1), 8)
    assert not expected.judge(wrong.reshape(-1).view(np.uint8)).is_close
    assert expected.judge(reference.reshape(-1).view(np.uint8)).is_close


@pytest.mark.parametrize(
    ("values", "is_exact", "is_close"),
    [
        ([1.0, np.nan, np.inf], True, True),
        ([1.0, np.nan, np.inf], False, True),
        ([1.0, np.nan, -np.inf], True, False),
        ([1.0, np.inf, np.nan], False, True),
        ([1.0, 0.0, np.inf], False, False),
        ([np.nan, np.nan, np.inf], False, False),
        ([1.5, np.nan, np.inf], False, False),
    ],
)
def test_what_is_not_finite_must_be_so_where_the_reference_is(
    values: list[float], is_exact: bool, is_close: bool
) -> None:
    truth = np.array([1.0, np.nan, np.inf])
    expected = ExpectedNonFinite(
        "float32", truth.astype(np.float32).view(np.uint8), truth.view(np.uint8), is_exact=is_exact,
        policy=TolerancePolicy.STRICT, inputs_per_output=1, slack=BY_ROW, width=3,
    )  # fmt: skip
    assert expected.judge(np.array(values, np.float32).view(np.uint8)).is_close is is_close


def test_where_reference_and_oracle_differ_in_being_finite_nothing_is_asked() -> None:
    reference, truth = np.array([1.0, np.inf], np.float32), np.array([1.0, 1e60])
    truth[1] = 2.0
    expected = ExpectedNonFinite(
        "float32", reference.view(np.uint8), truth.view(np.uint8), is_exact=False,
        policy=TolerancePolicy.STRICT, inputs_per_output=1, slack=BY_ROW, width=2,
    )  # fmt: skip
    assert expected.judge(np.array([1.0, 7.0], np.float32).view(np.uint8)).is_close


def test_an_output_that_no_finite_value_changes_may_be_finite_or_not() -> None:
    """The reference multiplies by zero what a mask excludes; whoever does not read it gets no NaN."""
    reference = np.array([np.nan, np.nan, 3.0], np.float32)
    expected = ExpectedNonFinite(
        "float32", reference.view(np.uint8), reference.astype(np.float64).view(np.uint8), is_exact=False,
        policy=TolerancePolicy.STRICT, inputs_per_output=1, slack=BY_ROW, width=3,
        hangs=np.array([True, False, False]),
    )  # fmt: skip
    closeness = {
        (np.nan, 7.0, 3.0): True,
        (np.nan, np.nan, 3.0): True,
        (7.0, np.nan, 3.0): False,
        (np.nan, 7.0, np.nan): False,
        (np.nan, 7.0, 4.0): False,
    }
    for values, is_close in closeness.items():
        assert expected.judge(np.array(values, np.float32).view(np.uint8)).is_close is is_close


def test_an_element_that_jumps_may_do_so_and_what_moves_by_roundings_is_judged_as_ever() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    expected = expect(truth.astype(np.float32), truth)
    assert not expected.widen_where_it_jumps(_raw(truth * (1 + 2.0**-22)), moved_by=expected.units * U)
    assert expected.widen_where_it_jumps(
        _raw(np.array([1.0, 2.5, 3.00001, 4.0])), moved_by=expected.units * U
    )
    for values, is_close in (([1, 2.5, 3, 4], True), ([1, 2.6, 3, 4], False), ([1, 2, 3.0001, 4], False)):
        assert expected.judge(_raw(np.array(values, np.float32))).is_close is is_close


def test_what_jumps_may_have_moved_smoothly_besides() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    expected = expect(truth.astype(np.float32), truth)
    step = 2 * expected.units * 2.0**-23
    expected.widen_where_it_jumps(
        _raw(truth + np.array([0.0, 0.5 - step, 0.0, 0.0])), moved_by=expected.units * U
    )
    for jump, is_close in ((0.5, True), (0.5 + 20 * step, False)):
        values = truth + np.array([0.0, jump, 0.0, 0.0])
        assert expected.judge(_raw(values.astype(np.float32))).is_close is is_close


def test_a_small_jump_is_told_from_smooth_moves_where_little_was_moved() -> None:
    truth = np.array([100.0, 200.0, 300.0, 400.0])
    jumped = _raw(truth + np.array([0.0, 1.0, 0.0, 0.0]))
    expected = ExpectedOutput(
        "float32", _raw(truth.astype(np.float32)), _raw(truth), policy=TolerancePolicy.STRICT,
        inputs_per_output=64.0, slack=Slack(floor=32.0),
    )  # fmt: skip
    assert not expected.widen_where_it_jumps(jumped, moved_by=expected.units * U)
    assert expected.widen_where_it_jumps(jumped, moved_by=expected.least_units * U)


def test_a_jump_that_was_seen_before_is_no_news() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    expected = expect(truth.astype(np.float32), truth)
    second, third = np.array([1.0, 2.5, 3.0, 4.0]), np.array([1.0, 2.0, 3.5, 4.0])
    assert expected.widen_where_it_jumps(_raw(second), moved_by=expected.units * U)
    assert not expected.widen_where_it_jumps(_raw(second * (1 + 2.0**-20)), moved_by=expected.units * U)
    assert expected.widen_where_it_jumps(_raw(third), moved_by=expected.units * U)


def test_an_integer_that_was_seen_before_is_no_news() -> None:
    expected, raw = _integers([5, 5, 7, 9], [5, 5, 7, 9]), _raw(np.array([5, 6, 7, 9]))
    assert expected.widen_exact(raw, raw, is_open=False)
    assert not expected.widen_exact(raw, raw, is_open=False)


def test_in_a_row_of_open_order_each_element_may_be_what_any_of_them_is() -> None:
    truth = np.array([1.0, 1.0, 0.0, 0.0, 5.0, 6.0, 7.0, 8.0])
    expected = by_row(truth.astype(np.float32), truth, 4)
    moved = _raw(np.array([0.0, 1.0, 1.0, 0.0, 5.0, 6.0, 7.0, 8.0]))
    expected.widen_where_it_jumps(moved, moved_by=expected.units * U, in_rows=True)
    for first, second, is_close in (
        ([0, 0, 1, 1], [5, 6, 7, 8], True),
        ([0, 0, 3, 1], [5, 6, 7, 8], False),
        ([1, 1, 0, 0], [6, 5, 7, 8], False),
    ):
        assert expected.judge(_raw(np.array([*first, *second], np.float32))).is_close is is_close


def test_a_smooth_move_of_half_inputs_is_no_jump() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    expected = by_row(truth.astype(np.float32), truth, 4)
    moved = _raw(truth * (1 + 2.0**-7))
    assert not expected.widen_where_it_jumps(moved, moved_by=U, in_rows=True, least=2.0**-6)
    assert expected.widen_where_it_jumps(moved, moved_by=U, in_rows=True)


def test_a_constant_factor_is_no_rounding_to_half_precision() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(4096).astype(np.float32).astype(np.float64)
    half = ExpectedOutput(
        "float16", _raw(truth.astype(np.float16)), _raw(truth), policy=TolerancePolicy.STRICT,
        inputs_per_output=64.0,
    )  # fmt: skip
    for factor, is_close in ((1 + 2.0**-12, True), (1 + 2.0**-9, False)):
        assert half.judge(_raw((truth * factor).astype(np.float16))).is_close is is_close
