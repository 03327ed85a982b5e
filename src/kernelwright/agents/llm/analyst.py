"""The model Analyst: the expert's measurements and gate, with features that a model read off the source."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import BaseModel

from kernelwright.agents.expert.applicable import acting_skills, judged
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.llm.answers import Judged
from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Analyst, Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.evidence import FactValue
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Plan
from kernelwright.core.skill import Skill
from kernelwright.core.target import TargetName
from kernelwright.skills.ranking import rank
from kernelwright.skills.stats import LedgerView

PREFIX = "code."
"""Under which names the model's features enter the evidence, where predicates of skills can read them."""
_PRINTED = "a drop-in for the reference ``Model``"
"""Stands in the docstring of every file that our printer wrote."""


class MeasuringAnalyst:
    """The expert's analysis of candidates that models may have written.

    The expert reads a program's structure off the plan. Where the source is not what the plan lowers to,
    those facts are left out, and diagnosis and ranking are made again without them. The skills are those
    that can act on what the expert would write for the task.
    """

    def __init__(self, expert: Analyst, skills: Mapping[str, Skill]) -> None:
        self._expert = expert
        self._workshop = PlanLowering(dict(skills))

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        """Return evidence, diagnosis and ranking, all by code (see roles.Analyst)."""
        if is_lowered(base):
            return self._expert.analyse(problem, base, evaluation, ledger)
        unplanned = base.model_copy(update={"plan": Plan()})
        found = self._expert.analyse(problem, unplanned, evaluation, ledger)
        facts = {n: v for n, v in found.evidence.facts.items() if not n.startswith("program.")}
        return judged(self._workshop, problem, Plan(), facts, ledger)


class ModelAnalyst:
    """Fills the Analyst's seat: measurements by code, and features that a model read off the source.

    The model is asked only where a skill for the target has a predicate on a feature: what no rule reads is
    not worth a call.

    Args:
        asker: The role's way to its model.
        measuring: Measures, diagnoses and ranks.
    """

    def __init__(self, asker: Asker, measuring: Analyst) -> None:
        self._asker = asker
        self._measuring = measuring
        self._workshop = PlanLowering(dict(asker.skills))
        self._features: dict[str, dict[str, FactValue]] = {}

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        """Return the gate's analysis, its skills ranked again by what the model read, if that can be used."""
        analysis = self._measuring.analyse(problem, base, evaluation, ledger)
        if not reads_features(self._asker.skills.values(), problem.target):
            return analysis
        if base.id not in self._features:
            self._features[base.id] = self._read(problem, base, evaluation)
        if not self._features[base.id]:
            return analysis
        evidence = analysis.evidence.with_facts(self._features[base.id])
        gains = acting_skills(self._workshop, problem, base.plan if is_lowered(base) else Plan())
        skills, target = self._workshop.skills, str(problem.target)
        ranked = rank(skills, evidence, analysis.diagnosis, target, ledger, gains)
        return replace(analysis, evidence=evidence, ranked=ranked)

    def _read(self, problem: Problem, base: Candidate, evaluation: Evaluation) -> dict[str, FactValue]:
        told = PromptInput(Situation(problem, Node(base, evaluation, "base")), self._asker.skills)
        output = prompting_of(problem.target).features
        try:
            features = self._asker.structured("analyst", told, output, _taken)
        except UnusableAnswer:
            return {}
        return {f"{PREFIX}{n}": v for n, v in features.model_dump().items() if v is not None}


def is_lowered(base: Candidate) -> bool:
    """Tell whether a candidate's source is what its plan lowers to."""
    return _PRINTED in base.source and not any(move.text for move in base.plan.moves)


def reads_features(skills: Iterable[Skill], target: TargetName) -> bool:
    """Tell whether a skill for the target decides by a feature that a model reads off a source."""
    return any(
        predicate.metric.startswith(PREFIX)
        for skill in skills
        if str(target) in skill.targets
        for predicate in (*skill.requires, *skill.forbids, *(signal.when for signal in skill.signals))
    )


def _taken(features: BaseModel) -> Judged[BaseModel]:
    return Judged(CallOutcome.OK, features)
