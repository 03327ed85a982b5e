"""What comes again in every draw of a task is other in the replay, so that nobody gains by keeping it."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.core.policy import Nonfinite
from kernelwright.referee.host.acceptance import Asking, Questions, Values
from kernelwright.referee.host.change import AcceptedInputs, as_float, change_sample
from kernelwright.referee.host.odd_rows import Keeping
from kernelwright.referee.host.renewing import Renewing, Way, ways_to_renew

Call = Callable[..., torch.Tensor]


def ask(function: Call, drawn: Values, again: Values) -> AcceptedInputs:
    def run(tensors: Values) -> Values | None:
        try:
            outputs = [function(*tensors)]
        except RuntimeError:
            return None
        return outputs if all(bool(x.isfinite().all()) for x in outputs) else None

    def told(tensors: Values, tell: Callable[[Values], None]) -> Values | None:
        tell(tensors)
        return run(tensors)

    questions = Questions(run, run, told, run, drawn, seed=3, drawn_again=again)
    return Asking(questions).answer(nonfinite=Nonfinite.IGNORED)


def renewed(accepted: AcceptedInputs, drawn: Values, again: Values, seed: int = 0) -> Values:
    """Return a draw as the replay has it."""
    copies, known = ([as_float(x.clone()) for x in xs] for xs in (drawn, again))
    generator = torch.Generator().manual_seed(seed)
    change_sample(copies, "renewed", 0, Keeping.NOTHING, generator, accepted, known=dict(enumerate(known)))
    return copies


def covariance() -> torch.Tensor:
    rows = torch.randn(128, 96)
    return rows.T @ rows / 128 + 0.01 * torch.eye(96)


def test_what_is_always_alike_is_no_multiple_of_itself() -> None:
    x, y, kept = torch.randn(64, 8), torch.randn(64, 8), torch.randn(8, 4)
    accepted = ask(lambda x, w: x @ w, [x, kept], [y, kept])
    assert accepted.renewed == {1: Renewing(Way.EACH)}
    new = renewed(accepted, [x, kept], [y, kept])
    assert torch.equal(new[0], x) and (new[1] / kept).unique().numel() == kept.numel()
    assert bool(((new[1] / kept > 0.49) & (new[1] / kept <= 1.01)).all())


@pytest.mark.parametrize("solve", [torch.linalg.inv, torch.linalg.cholesky])
def test_a_covariance_stays_one_and_its_inverse_is_no_multiple_of_the_old_one(solve: Call) -> None:
    x, y, kept = torch.randn(64, 96), torch.randn(64, 96), covariance()
    accepted = ask(lambda x, s: x @ solve(s), [x, kept], [y, kept])
    for seed in range(8):
        new = renewed(accepted, [x, kept], [y, kept], seed)[1]
        assert torch.allclose(new, new.T) and float(torch.linalg.eigvalsh(new).min()) > 0
        assert float((torch.linalg.inv(new) / torch.linalg.inv(kept)).std()) > 0.1


def test_where_a_reference_takes_multiples_only_it_gets_these() -> None:
    x, y, kept = torch.randn(64, 8), torch.randn(64, 8), torch.randn(8)

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        torch._check(bool(torch.allclose(w / w[0], kept / kept[0])))
        return x * w

    accepted = ask(call, [x, kept], [y, kept])
    new = renewed(accepted, [x, kept], [y, kept])[1]
    assert torch.allclose(new / new[0], kept / kept[0]) and not torch.equal(new, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_a_prefix_that_never_changes_is_renewed_and_the_rest_stays(dtype: torch.dtype) -> None:
    prefix = torch.randn(48, 32, dtype=dtype)
    drawn, again = ([torch.cat([prefix, torch.randn(16, 32, dtype=dtype)])] for _ in range(2))
    accepted = ask(lambda x: x.abs(), drawn, again)
    assert accepted.renewed == {0: Renewing(Way.EACH, is_partial=True)}
    new, before = renewed(accepted, drawn, again)[0], as_float(drawn[0])
    is_same = new == before
    assert float(is_same[:48].float().mean()) < 0.1 and float(is_same[48:].float().mean()) > 0.9


def test_zeros_that_are_always_there_and_chance_renew_nothing() -> None:
    def draw(dtype: torch.dtype) -> torch.Tensor:
        return torch.cat([torch.zeros(32, 64), torch.randn(32, 64)]).to(dtype)

    for dtype in (torch.float32, torch.bfloat16):
        assert not ways_to_renew(draw(dtype), draw(dtype), may_swap=True)


@pytest.mark.parametrize("shape", [(), (1,), (24, 1), (40, 64)])
def test_levels_of_few_are_others_and_equal_ones_stay_equal(shape: tuple[int, ...]) -> None:
    drawn, again = ([torch.randint(1, 17, shape).float() / 16] for _ in range(2))
    accepted = ask(lambda level: level.sin(), drawn, again)
    levels = torch.arange(1, 17) / 16
    new = renewed(accepted, drawn, again)[0]
    assert not bool(torch.isin(new, levels).any())
    places = drawn[0].reshape(-1)
    assert torch.equal(places[:, None] == places, new.reshape(-1, 1) == new.reshape(-1))


def test_a_constant_of_few_levels_is_no_constant_any_more() -> None:
    drawn, again = [torch.full((8, 8), 0.25)], [torch.full((8, 8), 0.75)]
    accepted = ask(lambda x: x.sin(), drawn, again)
    assert renewed(accepted, drawn, again)[0].unique().numel() > 32


def test_thousands_of_steps_are_few_where_each_comes_again() -> None:
    drawn, again = (torch.randint(1, 1001, (4096, 1)).float() for _ in range(2))
    assert ways_to_renew(drawn, again, may_swap=True)[0] == Renewing(Way.BY_VALUE)
    assert not ways_to_renew(torch.rand(4096), torch.rand(4096), may_swap=True)


def test_masks_and_integers_that_are_no_positions_stay() -> None:
    mask, ids = torch.ones(16, 16).tril(), torch.randint(0, 100, (16,))
    for kept in (mask, mask.bool(), ids, torch.zeros(16).masked_fill(mask[3] == 0, -torch.inf)):
        assert not ways_to_renew(kept, kept, may_swap=True)


def test_sorted_values_stay_sorted() -> None:
    kept, x = torch.linspace(0, 1, 96), torch.randn(8, 96)
    accepted = ask(lambda x, t: x + t.diff().log().sum(), [x, kept], [x + 1, kept])
    new = renewed(accepted, [x, kept], [x + 1, kept])[1]
    assert bool((new.diff() > 0).all()) and (new / kept).unique().numel() > 64
