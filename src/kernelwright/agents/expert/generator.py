"""The expert Generator: seeds from what cannot be wrong to all the code it can write, then lots."""

import random
from collections.abc import Iterator
from itertools import chain

from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move, Plan
from kernelwright.ir.edits import Site
from kernelwright.ir.fusion_edits import OWN_PRODUCT, OWN_RECURRENCE, WINDOWS_GAIN
from kernelwright.ir.plan_lowering import sites

MAX_ALGEBRA_MOVES = 24
"""Rewrites in the algebra seed; ours, far above what any known task needs."""
OWN = frozenset({f"fusion:{OWN_PRODUCT}", f"fusion:{OWN_RECURRENCE}"})
RELAYOUT = "rewrite:channels_last"
FOR_LIBRARIES = frozenset({RELAYOUT, "rewrite:onednn_matmul"})
"""Rewrites that make what a library does faster."""
SEVERAL = 4
"""Products from which on a seed has code for all of them; ours: fewer are reached by single moves."""
DRAWS_PER_SEED = 8
"""Lots drawn for each further seed asked for, before there are fewer; our choice."""


class ExpertGenerator:
    """Seeds: the library calls, the fused graph, the fused graph after what surely pays, all generated."""

    def __init__(self, workshop: PlanLowering) -> None:
        self._workshop = workshop

    def root(self, problem: Problem) -> Candidate:
        """Return the library calls as they are (see roles.Generator)."""
        plan = Plan(moves=(LIBRARY_MOVE,))
        return self._workshop.candidate(problem, plan, parents=(), role="reference")

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to ``count`` seeds (see roles.Generator), none twice and none that the run has evaluated.

        Where kernels for convolutions keep images as they come, the second seed is the algebra that lays them
        out for the library, in place of the fused graph: which is ahead depends on all layers. A network has
        a fourth seed, with code for every product. Few of these are surely faster than the library, but no
        result passes between the two, and no single move leads there.

        All others are drawn by the situation's chance: one of the generated seeds with one
        applicable move, whatever is known of any of them. Independent samples, as a baseline needs them.
        None is drawn where cheap timings choose schedules: the Planner knows which other moves are worth it.
        """
        problem = situation.problem
        algebra = self.algebra(problem)
        surest = self._with_windows(problem, algebra)
        is_laid_out = self._n_relayouts(problem, algebra) > self._n_relayouts(problem, surest)
        fixed = (
            Plan(moves=(LIBRARY_MOVE,)),
            algebra if is_laid_out else Plan(),
            surest,
            *self._all_own(problem, surest),
        )
        found: dict[str, Candidate] = {}
        draws = 0 if situation.is_tuned else DRAWS_PER_SEED * count
        for plan in chain(fixed, self._drawn(situation, (Plan(), surest), draws)):
            try:
                seed = self._workshop.candidate(problem, plan, parents=(), role="generator")
            except LoweringError:
                continue
            if seed.id not in situation.evaluated:
                found.setdefault(seed.id, seed)
            if len(found) >= count:
                break
        return tuple(found.values())

    def _all_own(self, problem: Problem, plan: Plan) -> tuple[Plan, ...]:
        """Return the plan with code for every product; none where few are.

        A library does only what loops are known to be slow at.
        """
        lowerings, kept = self._workshop.lowerings(problem), Plan()
        for move in plan.moves:
            if lowerings.get(move.skill) not in FOR_LIBRARIES and self._can_follow(problem, kept, move):
                kept = kept.then(move)
        found = self._with_own(problem, kept, least_gain=1.0)
        return (found,) if sum(lowerings.get(m.skill) in OWN for m in found.moves) >= SEVERAL else ()

    def _can_follow(self, problem: Problem, plan: Plan, move: Move) -> bool:
        try:
            self._workshop.carried(problem, plan.then(move))
        except LoweringError:
            return False
        return True

    def _n_relayouts(self, problem: Problem, plan: Plan) -> int:
        lowerings = self._workshop.lowerings(problem)
        return sum(lowerings.get(move.skill) == RELAYOUT for move in plan.moves)

    def _drawn(self, situation: Situation, bases: tuple[Plan, ...], draws: int) -> Iterator[Plan]:
        """Yield plans of one base and one move: the skill drawn first, then place and parameters."""
        rng = random.Random(situation.chance)
        menus = [self._menu(situation.problem, base) for base in bases]
        for _ in range(draws):
            at = rng.randrange(len(bases))
            if not menus[at]:
                continue
            skill, places = rng.choice(menus[at])
            site = rng.choice(places)
            params = {name: rng.choice(values) for name, values in site.params.items()}
            yield bases[at].then(Move(skill=skill, region=site.region, params=params, why=site.why))

    def _menu(self, problem: Problem, plan: Plan) -> list[tuple[str, tuple[Site, ...]]]:
        """Return the skills that apply to a plan, each with its places."""
        carried = self._workshop.carried(problem, plan)
        lowerings = self._workshop.lowerings(problem)
        skills = (skill for skill in self._workshop.skills if skill in lowerings)
        found = [(skill, sites(carried, lowerings[skill])) for skill in skills]
        return [(skill, places) for skill, places in found if places]

    def surest(self, problem: Problem) -> Plan:
        """Return the plan of all that surely pays, algebra and kernels that are ahead of the library's."""
        return self._with_windows(problem, self.algebra(problem))

    def algebra(self, problem: Problem) -> Plan:
        """Apply every rewrite that analytically pays, the largest gain first."""
        plan = Plan()
        while len(plan.moves) < MAX_ALGEBRA_MOVES:
            longer = self._with_next_rewrite(problem, plan)
            if longer is None:
                break
            plan = longer
        return plan

    def _with_windows(self, problem: Problem, plan: Plan) -> Plan:
        """Take convolutions from the library for which the target has better kernels.

        These read images in the order in which they come. So a plan with any loses what lays images out
        otherwise, unless fewer have kernels then.
        """
        if not self._workshop.carried(problem, plan).lowering.own_windows:
            return plan
        lowerings = self._workshop.lowerings(problem)
        kept = tuple(move for move in plan.moves if lowerings.get(move.skill) != RELAYOUT)
        found = self._with_own(problem, plan)
        if kept == plan.moves:
            return found
        try:
            other = self._with_own(problem, Plan(moves=kept))
        except LoweringError:
            return found
        n_own, n_other = (sum(lowerings.get(m.skill) in OWN for m in one.moves) for one in (found, other))
        return other if n_other >= max(n_own, 1) else found

    def _with_own(self, problem: Problem, plan: Plan, least_gain: float = WINDOWS_GAIN) -> Plan:
        carried = self._workshop.carried(problem, plan)
        for skill, lowering in self._workshop.lowerings(problem).items():
            if lowering in OWN:
                for site in sites(carried, lowering):
                    if site.gain >= least_gain:
                        plan = plan.then(Move(skill=skill, region=site.region, why=site.why))
        return plan

    def _with_next_rewrite(self, problem: Problem, plan: Plan) -> Plan | None:
        used = {move.key for move in plan.moves}
        for move, _ in self._rewrites(problem, plan):
            if move.key in used:
                continue
            if self._can_follow(problem, plan, move):
                return plan.then(move)
        return None

    def _rewrites(self, problem: Problem, plan: Plan) -> list[tuple[Move, float]]:
        carried = self._workshop.carried(problem, plan)
        found = []
        for skill, lowering in self._workshop.lowerings(problem).items():
            if not lowering.startswith("rewrite:"):
                continue
            for site in sites(carried, lowering):
                if site.gain > 1.0:
                    found.append((Move(skill=skill, region=site.region, why=site.why), site.gain))
        return sorted(found, key=lambda pair: (-pair[1], pair[0].key))
