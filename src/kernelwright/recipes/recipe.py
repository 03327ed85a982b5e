"""What a recipe is: a name, a policy, defaults. It never knows which team plays it."""

from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.search.view import SearchPolicy


@dataclass(frozen=True)
class Recipe:
    """One published system, or our own, as data."""

    name: str
    summary: str
    policy: SearchPolicy
    budget: Budget
    """Granted when the user names none."""
