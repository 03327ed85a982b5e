"""Which nodes of the run a role gets to see, by their relation to the base.

Source: STARK (arXiv 2510.16996), dynamic context windows.
"""

from dataclasses import dataclass
from typing import Literal

from kernelwright.runs.view import RunView

Relation = Literal["root", "children", "siblings", "nephews", "leaders", "members"]


@dataclass(frozen=True)
class NodeWindow:
    """Relations in the order of their importance; a node is shown once, under the first that fits."""

    relations: tuple[Relation, ...] = ()
    n_leaders: int = 3
    """Ours: the paper's r is not known."""

    def of(self, view: RunView, base: str | None) -> tuple[tuple[str, str], ...]:
        """Return candidate id and relation (in the singular) of every node in the window of a base."""
        found: dict[str, str] = {}
        for relation in self.relations:
            for candidate in self._related(view, base, relation):
                if candidate != base:
                    found.setdefault(candidate, SINGULAR[relation])
        return tuple(found.items())

    def _related(self, view: RunView, base: str | None, relation: Relation) -> tuple[str, ...]:
        if relation == "root":
            return tuple(a.candidate for a in view.attempts if a.mode == "root")
        if relation == "leaders":
            return tuple(a.candidate for a in view.leaders(self.n_leaders))
        if relation == "members":
            return tuple(a.candidate for a in view.attempts)
        if base is None:
            return ()
        if relation == "children":
            return tuple(a.candidate for a in view.children(base))
        related = view.siblings(base) if relation == "siblings" else view.nephews(base)
        return tuple(a.candidate for a in related)


FASTEST = NodeWindow(("leaders",), n_leaders=1)
"""The fastest kernel, where the base is another; ours: whoever plans or writes sees it."""

SINGULAR: dict[Relation, str] = {
    "root": "root",
    "children": "child",
    "siblings": "sibling",
    "nephews": "nephew",
    "leaders": "leader",
    "members": "member",
}
