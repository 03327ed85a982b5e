"""What every search policy must keep to, and a game to check it in.

The game plays the engine's part without a team or a referee: candidates, failures, bases without a move and
steps that come to nothing are drawn by lot, so that a policy meets the views that a run can give it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelwright.core.evaluation import Stage
from kernelwright.runs.view import Attempt, RunView, SearchPolicy, Selection

FAILING_STAGES = (Stage.GUARD, Stage.BUILD, Stage.LOAD, Stage.VERIFY)


@dataclass(frozen=True)
class Luck:
    """How often what happens, as fractions of the steps or of the candidates."""

    fruitless: float = 0.1
    exhausted: float = 0.1
    verified: float = 0.6


@dataclass
class Game:
    """What was selected under which view, in order; the last selection is the stop."""

    rounds: list[tuple[RunView, Selection]] = field(default_factory=list)

    @property
    def last(self) -> RunView:
        """The view under which the policy stopped."""
        return self.rounds[-1][0]

    @property
    def reason(self) -> str:
        """Why it stopped."""
        return self.rounds[-1][1].reason


def play(
    make_policy: Callable[[], SearchPolicy], lots: random.Random, luck: Luck = Luck(), max_steps: int = 500
) -> Game:
    """Play a policy to its end and check its contract at each step; AssertionError when it breaks it.

    Selections are sound and depend on the view alone; the search ends, with a reason.
    """
    policy, view, game = make_policy(), RunView(), Game()
    for step in range(1, max_steps + 1):
        selection = policy.select(view)
        assert selection == policy.select(view) == make_policy().select(view), "not a function of the view"
        game.rounds.append((view, selection))
        if selection.mode == "stop":
            assert selection.reason, "stops without a reason"
            return game
        check_selection(view, selection)
        view = _after(view, selection, step, lots, luck)
    raise AssertionError(f"no end after {max_steps} steps")


def check_selection(view: RunView, selection: Selection) -> None:
    """Check that a selection can be carried out; AssertionError when it cannot."""
    assert selection.count >= 1
    if selection.base is None:
        return  # a first step: nothing to start from
    base = view.attempt(selection.base)
    assert base is not None, "an unknown base"
    assert base.candidate not in view.exhausted, "an exhausted base"
    assert base.is_verified == (selection.mode != "repair"), "a repair of what works, or the other way round"


def _after(view: RunView, selection: Selection, step: int, lots: random.Random, luck: Luck) -> RunView:
    assert selection.mode != "stop"
    fate = lots.random()
    if fate < luck.fruitless:
        tries = view.fruitless.get(selection.mode, 0) + 1
        return _next(view, view.attempts, fruitless={**view.fruitless, selection.mode: tries})
    fruitless = {**view.fruitless, selection.mode: 0}
    if selection.base is not None and fate < luck.fruitless + luck.exhausted:
        return _next(view, view.attempts, fruitless=fruitless, exhausted=view.exhausted | {selection.base})
    made = [_candidate(view, selection, step, n, lots, luck) for n in range(lots.randint(1, selection.count))]
    return _next(view, (*view.attempts, *made), fruitless=fruitless)


def _next(
    view: RunView,
    attempts: Sequence[Attempt],
    *,
    fruitless: dict[str, int],
    exhausted: frozenset[str] | None = None,
) -> RunView:
    return RunView(
        attempts=tuple(attempts),
        base=view.base,
        exhausted=view.exhausted if exhausted is None else exhausted,
        fruitless=fruitless,
    )


def _candidate(
    view: RunView, selection: Selection, step: int, n: int, lots: random.Random, luck: Luck
) -> Attempt:
    assert selection.mode != "stop"
    is_verified = lots.random() < luck.verified
    return Attempt(
        step=step,
        mode=selection.mode,
        candidate=f"c{len(view.attempts) + n}",
        base=selection.base,
        is_verified=is_verified,
        speedup=lots.uniform(0.2, 5.0) if is_verified else None,
        floor_fraction=None,
        stage=Stage.DONE if is_verified else lots.choice(FAILING_STAGES),
    )
