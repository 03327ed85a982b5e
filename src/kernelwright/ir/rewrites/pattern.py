"""The shape that all rewrites share: propose at a node, carry out on a copy."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import Site
from kernelwright.ir.rewrites.cost import graph_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.tasks.capture import Captured

EVERYWHERE = "*"
"""The site that stands for all sites of a rewrite, and those that carrying them out uncovers."""
MOST_ROUNDS = 64


@dataclass(frozen=True)
class Proposal:
    """What could be done at one node."""

    why: str
    """As Site.why."""
    build: Callable[[Editor], fx.Node | None]
    """Adds the replacement before the node and returns it; None when it rewired the graph itself."""
    saved_ms: float = 0.0
    """By the model of `cost`; 0 when unknown."""


@dataclass
class PatternRewrite:
    """A Rewrite given by what it proposes at a node.

    ``propose`` looks only backwards from its node and at the node's readers, and must not propose
    again at what it has built (a rewrite applied everywhere runs until nothing is proposed).
    """

    name: str
    propose: Callable[[fx.Node], Proposal | None]

    def sites(self, captured: Captured) -> tuple[Site, ...]:
        """Return the sites, most promising first; all of them together come before single ones."""
        found = [(n.name, p) for n in _nodes(captured) if (p := self._propose(n)) is not None]
        total = graph_ms(captured.graph)
        sites = [Site(name, p.why, _gain(total, p.saved_ms)) for name, p in found]
        sites.sort(key=lambda site: -site.gain)
        if len(sites) > 1:
            saved = sum(p.saved_ms for _, p in found)
            why = f"{len(sites)} places, first: {sites[0].why}"
            sites.insert(0, Site(EVERYWHERE, why, _gain(total, saved)))
        return tuple(sites)

    def apply(self, captured: Captured, region: str) -> Captured:
        """Carry it out at one node, or EVERYWHERE; raises LoweringError where it does not apply."""
        edit = Editor(captured)
        if region == EVERYWHERE:
            applied = self._sweep(edit)
            rounds = 1
            while rounds < MOST_ROUNDS and self._sweep(edit):
                rounds += 1
        else:
            applied = any(self._at(edit, n) for n in list(edit.graph.nodes) if n.name == region)
        if not applied:
            raise LoweringError(f"{self.name} does not apply at {region!r}")
        return edit.finish()

    def _propose(self, node: fx.Node) -> Proposal | None:
        return self.propose(node) if node.op == "call_function" and node.users else None

    def _sweep(self, edit: Editor) -> bool:
        applied = [self._at(edit, node) for node in list(edit.graph.nodes)]
        edit.clean()
        return any(applied)

    def _at(self, edit: Editor, node: fx.Node) -> bool:
        proposal = self._propose(node)
        if proposal is None:
            return False
        with edit.at(node):
            new = proposal.build(edit)
        if new is not None:
            edit.replace(node, new)
        return True


_last: tuple[Captured, tuple[fx.Node, ...]] | None = None
"""What was looked at last: all rewrites are asked for their sites of one graph, one after the other."""


def _nodes(captured: Captured) -> tuple[fx.Node, ...]:
    """Return the nodes of a copy, which nothing edits."""
    global _last
    last = _last
    if last is None or last[0] is not captured:
        _last = last = (captured, tuple(Editor(captured).graph.nodes))
    return last[1]


def _gain(total_ms: float, saved_ms: float) -> float:
    return total_ms / max(total_ms - max(saved_ms, 0.0), 0.02 * total_ms) if total_ms > 0 else 1.0
