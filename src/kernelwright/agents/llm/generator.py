"""The model Generator: different seeds, correctness first.

Each call is shown the seeds of earlier calls, unless they are to be independent.
"""

from functools import partial

from kernelwright.agents.llm.answers import ExpectedAnswer, read_line
from kernelwright.agents.llm.asking import Asker, CodeQuestion
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.several import calls_for, gather
from kernelwright.agents.llm.sources import renamed_reference, with_approach
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Generator, Situation
from kernelwright.core.candidate import Candidate

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
        return Candidate(source=source, target=problem.target, role="reference")

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to ``count`` usable seeds of as few calls as hold them (see several.gather)."""
        per_call = 1 if situation.is_independent else self._asker.kernels
        if situation.is_independent:
            parts = calls_for(count, per_call)
            self._asker.send_early(self._question(situation, count, *part, ()) for part in parts)
        return gather(count, per_call, partial(self._written, situation, count))

    def _question(
        self, situation: Situation, count: int, number: int, most: int, earlier: tuple[str, ...]
    ) -> CodeQuestion:
        problem = situation.problem
        approaches = prompting_of(problem.target).approaches or (ANY_APPROACH,)
        suggested = [approaches[n % len(approaches)] for n in range(number - 1, number - 1 + most)]
        shown = () if situation.is_independent else earlier
        return CodeQuestion(
            "generator",
            PromptInput(situation, self._asker.skills, earlier=shown),
            ExpectedAnswer(problem.task.source, problem.target),
            most=most,
            facts={
                "number": number,
                "count": count,
                "approach": " ".join(dict.fromkeys(suggested)),
                "has_earlier": bool(shown),
            },
        )

    def _written(
        self, situation: Situation, count: int, number: int, most: int, earlier: tuple[str, ...]
    ) -> tuple[Candidate, ...]:
        problem = situation.problem
        question = self._question(situation, count, number, most, earlier)
        return tuple(
            Candidate(
                source=with_approach(one.source, read_line(one.text, "approach")),
                target=problem.target,
                role="generator",
                call=one.call,
            )
            for one in self._asker.sources(question)
        )
