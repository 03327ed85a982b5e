"""How a budget for a model is shared among the kinds of its blocks. Pure."""

from collections.abc import Sequence

from kernelwright.core.budget import Budget

LEAST_EVALUATIONS = 2
"""A kind gets at least these, or nothing: one for a kernel to begin with, one to better it; ours."""
LEAST_SHARE = 0.01
"""Kinds with a smaller share of the model's time are left as they are; ours."""
FOR_THE_WHOLE = 0.3
"""Share of the seconds that is kept to judge the model that was put together; ours."""


def share_budget(budget: Budget, shares: Sequence[float]) -> tuple[Budget | None, ...]:
    """Return each kind's part of a budget; None for a kind that gets nothing.

    Amounts that the budget leaves open stay open for each kind. The parts never come to more than the whole.

    Args:
        budget: for the model.
        shares: of the model's time, by kind.
    """
    ranked = sorted((i for i, share in enumerate(shares) if share >= LEAST_SHARE), key=lambda i: -shares[i])
    if budget.evaluations is not None:
        ranked = ranked[: max(budget.evaluations // LEAST_EVALUATIONS, 1)]
    total = sum(shares[i] for i in ranked)
    weights = {i: shares[i] / total for i in ranked}
    evaluations = _whole_parts(budget.evaluations, weights, LEAST_EVALUATIONS)
    calls, tokens = _whole_parts(budget.model_calls, weights), _whole_parts(budget.tokens, weights)
    seconds = None if budget.seconds is None else budget.seconds * (1 - FOR_THE_WHOLE)
    return tuple(
        Budget(
            evaluations=evaluations[i],
            model_calls=calls[i],
            tokens=tokens[i],
            usd=None if budget.usd is None else budget.usd * weights[i],
            seconds=None if seconds is None else seconds * weights[i],
        )
        if i in weights
        else None
        for i in range(len(shares))
    )


def _whole_parts(amount: int | None, weights: dict[int, float], least: int = 0) -> dict[int, int | None]:
    """Return whole numbers by weight that come to the amount: ``least`` each where there is enough of it."""
    if amount is None:
        return dict.fromkeys(weights)
    each = min(least, amount // len(weights)) if weights else 0
    rest = amount - each * len(weights)
    exact = {i: rest * weight for i, weight in weights.items()}
    parts = {i: int(value) for i, value in exact.items()}
    over = sorted(weights, key=lambda i: (parts[i] - exact[i], -weights[i]))[: rest - sum(parts.values())]
    return {i: each + part + (i in over) for i, part in parts.items()}
