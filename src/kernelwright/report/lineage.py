"""The family tree of a run's candidates, the winner's line of descent highlighted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelwright.report import svg

COLUMN, ROW, NODE = 104.0, 40.0, 84.0
ROOT = "reference"


class LineageNode(NamedTuple):
    """One candidate: what stands in its box, what hovering says, and its CSS class."""

    id: str
    parent: str
    text: str
    hover: str
    kind: str


def lineage(nodes: Sequence[LineageNode], winner: str | None) -> str:
    """Draw the tree, generations from left to right; parents must come before their children.

    A parent that is not among the nodes counts as the reference.
    """
    known = {node.id for node in nodes}
    root = LineageNode(ROOT, "", "reference", "The module as it was given", "root")
    parents = {node.id: node.parent if node.parent in known else ROOT for node in nodes}
    depth, row = _place([ROOT, *(node.id for node in nodes)], parents)
    line = _ancestors(winner, parents) if winner in known else set()
    everyone = [root, *nodes]
    edges = [_edge(n.id, parents[n.id], depth, row, n.id in line) for n in nodes]
    boxes = [_box(n, depth[n.id], row[n.id], n.id in line) for n in everyone]
    width = (max(depth.values()) + 1) * COLUMN + 8
    height = (max(row.values()) + 1) * ROW + 8
    return svg.picture(
        max(width, 320.0),
        height,
        *edges,
        *boxes,
        name="lineage",
        description="Which candidate was made from which; the winner's line is highlighted",
    ).replace("max-width:", f"min-width:{width:g}px;max-width:")


def _place(ids: Sequence[str], parents: Mapping[str, str]) -> tuple[dict[str, int], dict[str, float]]:
    """Give each node a generation and a row: leaves count up, a parent stands with its first child."""
    children: dict[str, list[str]] = {name: [] for name in ids}
    for child, parent in parents.items():
        children[parent].append(child)
    depth: dict[str, int] = {}
    row: dict[str, float] = {}
    next_row = 0
    stack: list[tuple[str, int, bool]] = [(ROOT, 0, False)]
    while stack:
        name, generation, is_done = stack.pop()
        if is_done:
            row[name] = row[children[name][0]]
            continue
        depth[name] = generation
        if not children[name]:
            row[name] = float(next_row)
            next_row += 1
            continue
        stack.append((name, generation, True))
        stack.extend((child, generation + 1, False) for child in reversed(children[name]))
    return depth, row


def _ancestors(winner: str | None, parents: Mapping[str, str]) -> set[str]:
    line: set[str] = set()
    while winner is not None and winner not in line:
        line.add(winner)
        winner = parents.get(winner)
    return line


def _centre(depth: int, row: float) -> tuple[float, float]:
    return 4 + depth * COLUMN, 4 + row * ROW + ROW / 2


def _edge(child: str, parent: str, depth: Mapping[str, int], row: Mapping[str, float], on_line: bool) -> str:
    x1, y1 = _centre(depth[parent], row[parent])
    x2, y2 = _centre(depth[child], row[child])
    x1 += NODE
    bend = (x1 + x2) / 2
    curve = f"M{x1:g},{y1:g} C{bend:g},{y1:g} {bend:g},{y2:g} {x2:g},{y2:g}"
    return svg.element("path", d=curve, fill="none", class_="edge on-line" if on_line else "edge")


def _box(node: LineageNode, depth: int, row: float, on_line: bool) -> str:
    x, y = _centre(depth, row)
    frame = svg.element("rect", x=x, y=y - 14, width=NODE, height=28.0, rx=6)
    text = svg.label(x + NODE / 2, y + 4, node.text, "axis strong", "middle")
    kind = f"node {node.kind}" + (" on-line" if on_line else "")
    return svg.element("g", svg.title(node.hover), frame, text, class_=kind)
