"""One unit of effort for every recipe."""

from collections.abc import Callable

from kernelwright.core.errors import BudgetUsedUp
from kernelwright.core.frozen import Frozen


class Budget(Frozen):
    """Amounts granted; None means unlimited."""

    evaluations: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def halved(self) -> "Budget":
        """Return half of every amount, of whole numbers at least one."""
        return Budget(**{name: amount and _half(amount) for name, amount in self})


class Spent(Frozen):
    """Amounts used so far."""

    evaluations: int = 0
    model_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def exhausts(self, budget: Budget, amounts: tuple[str, ...] = ()) -> str | None:
        """Return the first amount, of those named or of all, that is used up; None when there is none."""
        for name in amounts or type(budget).model_fields:
            granted = getattr(budget, name)
            if granted is not None and getattr(self, name) >= granted:
                return name
        return None

    def plus(self, more: "Spent") -> "Spent":
        """Return the sum."""
        return Spent(**{name: getattr(self, name) + getattr(more, name) for name in type(self).model_fields})


def _half(amount: float) -> float:
    return max(amount // 2, 1) if isinstance(amount, int) else amount / 2


class Meter:
    """The one place where a run's amounts are counted and its budget is enforced.

    Seconds are not counted here but asked of ``clock``: seconds of the run so far, those before an
    interruption included. One meter belongs to one run and is used by one thread at a time.
    """

    def __init__(self, budget: Budget, clock: Callable[[], float], *, reserved_s: float = 0.0) -> None:
        """Start at zero; ``reserved_s`` of the granted seconds are kept for what comes after the search."""
        self.budget = budget
        self._clock = clock
        self._reserved_s = reserved_s
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """Amounts used so far."""
        return self._spent.model_copy(update={"seconds": round(self._clock(), 3)})

    def charge(self, more: Spent) -> None:
        """Count what was used; it may go beyond the budget by the thing that was under way."""
        self._spent = self._spent.plus(more)

    def require(self, *amounts: str) -> None:
        """Raise BudgetUsedUp when an amount, of those named or of all, is used up: nothing new may begin.

        Reserved seconds count as used.
        """
        spent = self.spent
        known = spent.model_copy(update={"seconds": spent.seconds + self._reserved_s})
        used_up = known.exhausts(self.budget, amounts)
        if used_up is not None:
            raise BudgetUsedUp(used_up)

    def require_room(self, seconds: float) -> None:
        """Raise BudgetUsedUp when what takes so long would not end in time, reserved seconds included."""
        left = self.left_s
        if left is not None and left < seconds:
            raise BudgetUsedUp("seconds")

    def has_calls(self, count: int) -> bool:
        """Tell whether so many requests to models are left."""
        granted = self.budget.model_calls
        return granted is None or granted - self._spent.model_calls >= count

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, reserved ones included; None where the budget does not limit them."""
        granted = self.budget.seconds
        return None if granted is None else max(granted - self.spent.seconds, 0.0)

    @property
    def search_left_s(self) -> float | None:
        """Seconds that are left without the reserved ones; None where the budget does not limit them."""
        left = self.left_s
        return None if left is None else max(left - self._reserved_s, 0.0)

    def has_time(self) -> bool:
        """Tell whether something new may begin after the search, reserved seconds included."""
        return self.spent.exhausts(self.budget, ("seconds",)) is None
