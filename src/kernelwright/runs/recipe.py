"""What a recipe is: a name, a policy, pipelines, defaults. It never knows which team plays it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernelwright.core.budget import Budget
from kernelwright.core.events import StepMode
from kernelwright.runs.steps import StepKind
from kernelwright.runs.view import SearchPolicy


@dataclass(frozen=True)
class Recipe:
    """One published system, or our own, as data."""

    name: str
    summary: str
    make_policy: Callable[[int], SearchPolicy]
    """From the run's seed to its policy."""
    pipelines: Mapping[StepMode, StepKind]
    """How each kind of step is carried out; every mode that the policy selects is there."""
    budget: Budget
    """Granted when the user names none."""
    has_long_term: bool = True
    """False in an ablation: ledger, findings and archive stay closed."""
    temperatures: Mapping[str, float] = field(default_factory=dict)
    """By role, where the paper names them; for a model team, and only where the user sets none."""
