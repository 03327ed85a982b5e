"""The model Generator: different seeds, each one call that is shown the earlier ones, correctness first."""

from kernelwright.agents.llm.answers import ExpectedAnswer, read_line
from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.sources import renamed_reference, with_approach
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Generator, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable, UnusableAnswer

ANY_APPROACH = "the way that you think fastest."
"""What is asked for where a target names no approaches (``Prompting.approaches``); ours. KernelSkill asks for
a set of seeds and does not say how it varies."""


class ModelGenerator:
    """Fills the Generator's seat.

    Args:
        expert: Writes the root of a live module, whose reference is no source that can be renamed.
    """

    def __init__(self, asker: Asker, expert: Generator) -> None:
        self._asker = asker
        self._expert = expert

    def root(self, problem: Problem) -> Candidate:
        """Return the reference under the name ``ModelNew``; no model is asked."""
        if problem.task.artifact is not None:
            return self._expert.root(problem)
        source = renamed_reference(problem.task.source)
        return Candidate(source=source, target=problem.target, role="generator")

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return the usable answers of ``count`` calls, or of those that the budget and the API allowed.

        Raises UnusableAnswer when none is.
        """
        found: dict[str, Candidate] = {}
        problem = ""
        for n in range(count):
            try:
                seed = self._seed(situation, n, count, tuple(one.source for one in found.values()))
            except UnusableAnswer as error:
                problem = str(error)
                continue
            except (BudgetUsedUp, ModelUnavailable):
                if not found:
                    raise
                break  # what was written is worth judging
            found.setdefault(seed.id, seed)
        if count and not found:
            raise UnusableAnswer(problem)
        return tuple(found.values())

    def _seed(self, situation: Situation, n: int, count: int, earlier: tuple[str, ...]) -> Candidate:
        problem = situation.problem
        approaches = prompting_of(problem.target).approaches or (ANY_APPROACH,)
        source, text = self._asker.source(
            "generator",
            PromptInput(situation, self._asker.skills, earlier=earlier),
            ExpectedAnswer(problem.task.source, problem.target),
            number=n + 1,
            count=count,
            approach=approaches[n % len(approaches)],
        )
        source = with_approach(source, read_line(text, "approach"))
        return Candidate(source=source, target=problem.target, role="generator")
