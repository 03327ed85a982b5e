"""One unit of effort for every recipe."""

from kernelwright.core.frozen import Frozen


class Budget(Frozen):
    """Amounts granted; None means unlimited."""

    evaluations: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class Spent(Frozen):
    """Amounts used so far."""

    evaluations: int = 0
    model_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def exhausts(self, budget: Budget) -> str | None:
        """Return the name of the first amount that is used up, None when some of each is left."""
        for name in type(budget).model_fields:
            granted = getattr(budget, name)
            if granted is not None and getattr(self, name) >= granted:
                return name
        return None
