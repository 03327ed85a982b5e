"""STARK's search: a tree of attempts, epsilon-greedy over the nodes worth going on from.

Source: STARK (arXiv 2510.16996), read through notes that quote its formulas; the paper's text and code were
not at hand. Published: the score, the two selection rules, root throttling, dead-branch pruning, 30 attempts,
epsilon 0.3 to 0.4. Not known: n_root, n_child, which node wins a tie. Ours: those, exhausted nodes (a team
that has no move left there), and ending when no node can be selected.

docs/recipes/stark.md maps the method to this code.
"""

import math
import random
from dataclasses import dataclass, replace

from kernelwright.core.budget import Budget
from kernelwright.core.events import StepMode
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps import StepKind
from kernelwright.runs.steps.mending import Mend
from kernelwright.runs.steps.one_move import OneMove
from kernelwright.runs.steps.rewriting import Rewriting
from kernelwright.runs.steps.seeding import Root
from kernelwright.runs.view import Attempt, RunView, Selection, stop
from kernelwright.runs.windows import NodeWindow


@dataclass(frozen=True)
class StarkPolicy:
    """Grows the tree from the fastest node, or with probability epsilon from any leaf."""

    seed: int = 0
    attempts: int = 30
    """Evaluations after the root. Source: the paper's B."""
    epsilon: float = 0.35
    """Source: the paper's 0.3 to 0.4; the middle is ours."""
    n_root: int = 5
    """Children of the root; our choice."""
    n_child: int = 3
    """Failed children, all of them, of a node that is given up when there are more; our choice."""
    improve: StepMode = "optimize"
    """What is done with a correct node; ``rewrite`` in the ablation without a plan agent."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        opening = opening_of(view, self.attempts)
        if opening is not None:
            return opening
        tree = Tree(view)
        nodes = [node for node in tree.nodes if self.is_selectable(tree, node)]
        if not nodes:
            return stop("no node of the tree can be selected any more")
        node = self._pick(view, tree, nodes)
        return Selection(mode=self.improve if node.is_verified else "repair", base=node.candidate)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: each step chooses its node anew."""
        return False

    def is_selectable(self, tree: "Tree", node: Attempt) -> bool:
        """Apply root throttling, dead-branch pruning and exhaustion."""
        children = tree.children(node)
        if node.candidate in tree.exhausted:
            return False
        if node.mode == "root":
            return len(children) < self.n_root
        return not (len(children) > self.n_child and all(not child.is_verified for child in children))

    def _pick(self, view: RunView, tree: "Tree", nodes: list[Attempt]) -> Attempt:
        rng = generator_of(self.seed, view)
        leaves = [node for node in nodes if not tree.children(node)]
        if leaves and rng.random() < self.epsilon:
            return rng.choice(leaves)
        return min(nodes, key=score)


@dataclass(frozen=True)
class FromRootPolicy:
    """STARK's ablation without search: every attempt starts from the root, the best of them counts."""

    attempts: int = 30

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        opening = opening_of(view, self.attempts)
        if opening is not None:
            return opening
        root = Tree(view).nodes[0]
        if root.candidate in view.exhausted:
            return stop("every move that applies to the root was tried")
        return Selection(mode="optimize" if root.is_verified else "repair", base=root.candidate)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: the root stays what every attempt starts from."""
        return False


class Tree:
    """The attempts of a run as a tree; a candidate that came up twice is one node, with all its children."""

    def __init__(self, view: RunView) -> None:
        self.exhausted = view.exhausted
        self._nodes: dict[str, Attempt] = {}
        self._children: dict[str, list[Attempt]] = {}
        for attempt in view.attempts:
            if attempt.candidate in self._nodes:
                continue
            self._nodes[attempt.candidate] = attempt
            if attempt.base is not None:
                self._children.setdefault(attempt.base, []).append(attempt)

    @property
    def nodes(self) -> tuple[Attempt, ...]:
        """Every node, in the order they were made."""
        return tuple(self._nodes.values())

    def children(self, node: Attempt) -> tuple[Attempt, ...]:
        """Return the nodes made from a node, failed ones included."""
        return tuple(self._children.get(node.candidate, ()))


def score(node: Attempt) -> float:
    """Return what STARK minimises: latency, here in units of eager's; infinity for a node that fails."""
    return math.inf if not node.speedup else 1.0 / node.speedup


def generator_of(seed: int, view: RunView) -> random.Random:
    """Return the step's generator; steps that gave nothing count, so no choice is repeated for ever."""
    fruitless = sum(view.fruitless.values())
    return random.Random(f"{seed}:{len(view.attempts)}:{fruitless}:{len(view.exhausted)}")


def opening_of(view: RunView, attempts: int) -> Selection | None:
    """Return the root's selection first, the stop after all attempts, None in between."""
    made = sum(attempt.mode != "root" for attempt in view.attempts)
    if made >= attempts:
        return stop(f"all {attempts} attempts used")
    if view.attempts:
        return None
    if view.fruitless.get("root", 0):
        return stop("the root could not be written")
    return Selection(mode="root")


PLAN_WINDOW = NodeWindow(("root", "children", "leaders"), n_leaders=5)
"""Source: the paper, ``W_plan(i) = {i, root} + D(i) + Top-r(C)``; r is not known, 5 is ours."""
CODE_WINDOW = NodeWindow(("root", "children", "nephews", "leaders"), n_leaders=1)
"""Source: the paper, ``W_code(i) = {i, root} + D(i) + {j : p(j) in S(i)}``; the fastest kernel is ours."""
DEBUG_WINDOW = NodeWindow(("root", "siblings", "leaders"), n_leaders=1)
"""Source: the paper, ``W_debug(i) = {i, root} + S(i)``; the fastest kernel is ours."""

PIPELINES: dict[StepMode, StepKind] = {
    "root": Root(),
    "optimize": OneMove(plan_window=PLAN_WINDOW, code_window=CODE_WINDOW, wants_anchors=True),
    "repair": Mend(window=DEBUG_WINDOW),
}

STARK = Recipe(
    name="stark",
    summary="A tree grown from the reference: epsilon-greedy, throttled at the root, dead branches pruned.",
    make_policy=lambda seed: StarkPolicy(seed=seed),
    pipelines=PIPELINES,
    budget=Budget(evaluations=32),
    temperatures={"planner": 0.8, "coder": 0.1, "debugger": 0.1},
)
"""Temperatures: the paper. The budget is ours: the root, thirty attempts and a margin."""

NO_SEARCH = replace(
    STARK,
    name="stark-no-search",
    summary="Ablation: every attempt starts from the root, the best of them counts.",
    make_policy=lambda seed: FromRootPolicy(),
    pipelines={**PIPELINES, "optimize": OneMove(wants_anchors=True)},
)
NO_PLAN = replace(
    STARK,
    name="stark-no-plan",
    summary="Ablation: the tree without a plan agent; the Coder decides and writes.",
    make_policy=lambda seed: StarkPolicy(seed=seed, improve="rewrite"),
    pipelines={
        "root": Root(),
        "rewrite": Rewriting(CODE_WINDOW, is_guided=False),
        "repair": Mend(window=DEBUG_WINDOW),
    },
)

RECIPES = (
    STARK,
    NO_SEARCH,
    NO_PLAN,
)
