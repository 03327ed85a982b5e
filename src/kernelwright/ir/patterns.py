"""Pairs of dependent reductions that one pass over memory can carry out together."""

import itertools
from typing import NamedTuple

from kernelwright.ir.dag import Dag, DagNode


class Moments(NamedTuple):
    """A sum, and a sum of squared distances from that sum's mean, over the same axes."""

    first: int
    """Position of the group of the sum."""
    second: int
    """Position of the group of squares."""
    value: int
    """Node whose mean and variance are wanted."""
    mean: int
    """Node of the mean: the sum divided by the count."""


class Online(NamedTuple):
    """A maximum, and a sum of exponentials of the distance from it, over the same axes."""

    first: int
    second: int
    top: int
    """Node of the maximum."""
    shift: int
    """Node that is subtracted before the exponential: a function of the maximum alone."""


def find_moments(dag: Dag) -> Moments | None:
    """Return the first mean-and-variance pair of the region."""
    for first, second in _pairs(dag, "sum"):
        value = dag.groups[first].actions[0].node
        leaf = _leaf(dag, dag.groups[first].actions[0].stage.name)
        square = dag.nodes[dag.groups[second].actions[0].node]
        distance = _squared(square)
        if distance is None:
            continue
        node = dag.nodes[distance]
        if (
            node.kind == "op"
            and node.name == "sub"
            and node.args[0] == value
            and _is_mean(dag, node.args[1], leaf)
        ):
            return Moments(first, second, value, node.args[1])
    return None


def find_online(dag: Dag) -> Online | None:
    """Return the first maximum-and-exponentials pair of the region."""
    for first, second in _pairs(dag, "max"):
        value = dag.groups[first].actions[0].node
        leaf = _leaf(dag, dag.groups[first].actions[0].stage.name)
        node = dag.nodes[dag.groups[second].actions[0].node]
        if node.kind != "op" or node.name != "exp":
            continue
        inside = dag.nodes[node.args[0]]
        if inside.kind != "op" or inside.name != "sub" or inside.args[0] != value:
            continue
        of_shift = dag.needed([inside.args[1]])
        if leaf in of_shift and all(dag.nodes[n].kind in ("op", "const") or n == leaf for n in of_shift):
            return Online(first, second, leaf, inside.args[1])
    return None


def _pairs(dag: Dag, combine: str) -> list[tuple[int, int]]:
    """Return neighbouring groups of one float32 reduction each: the given kind, then a sum."""
    found = []
    alone = [
        (i, g)
        for i, g in enumerate(dag.groups)
        if len(g.actions) == 1 and g.reduces and g.actions[0].stage.dtype == "float32"
    ]
    for (i, a), (j, b) in itertools.pairwise(alone):
        is_pair = a.actions[0].stage.combine == combine and b.actions[0].stage.combine == "sum"
        if is_pair and a.axes == b.axes and j == i + 1:
            found.append((i, j))
    return found


def _leaf(dag: Dag, stage: str) -> int:
    return next(i for i, n in enumerate(dag.nodes) if n.kind == "reduced" and n.name == stage)


def _squared(node: DagNode) -> int | None:
    """Return the node that is squared, None when it is no square."""
    if node.kind != "op":
        return None
    if node.name == "square" or (node.name == "mul" and node.args[0] == node.args[1]):
        return node.args[0]
    return node.args[0] if node.name == "pow" and len(set(node.args)) == 2 else None


def _is_mean(dag: Dag, number: int, leaf: int) -> bool:
    node = dag.nodes[number]
    if node.kind != "op" or node.name not in ("div", "mul") or leaf not in node.args:
        return False
    return all(a == leaf or dag.nodes[a].kind == "const" for a in node.args)
