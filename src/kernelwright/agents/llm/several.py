"""Several kernels of one question: as few answers as hold them, and those that are usable kept."""

from collections.abc import Callable

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable, UnusableAnswer

AskFor = Callable[[int, int, tuple[str, ...]], tuple[Candidate, ...]]
"""Returns candidates of one answer, given (number of the first, how many it may hold, earlier sources)."""


def calls_for(count: int, per_call: int) -> list[tuple[int, int]]:
    """Return, for each answer, the number of the first kernel in it and how many it may hold."""
    return [(n + 1, min(per_call, count - n)) for n in range(0, count, per_call)]


def gather(count: int, per_call: int, ask: AskFor) -> tuple[Candidate, ...]:
    """Return the different candidates of answers to ``count`` kernels, ``per_call`` in one at most.

    Raises UnusableAnswer when no answer is usable. What was written when the budget or the API ends is kept.
    """
    found: dict[str, Candidate] = {}
    problem = ""
    for number, most in calls_for(count, per_call):
        try:
            made = ask(number, most, tuple(one.source for one in found.values()))
        except UnusableAnswer as error:
            problem = str(error)
            continue
        except (BudgetUsedUp, ModelUnavailable):
            if not found:
                raise
            break  # what was written is worth judging
        for candidate in made:
            found.setdefault(candidate.id, candidate)
    if count and not found:
        raise UnusableAnswer(problem)
    return tuple(found.values())
