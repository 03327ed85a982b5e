"""Lower a captured graph to the loop IR, fusing what shares a loop."""

import logging

from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower.plan import Lowered, Planner
from kernelwright.ir.lower.translate import translate
from kernelwright.ir.lower.values import BlockedError, Inline
from kernelwright.ir.program import Program
from kernelwright.tasks.capture import Captured

_log = logging.getLogger(__name__)

MAX_OBSTACLES = 60
"""Values stored and operators left to torch because they could not be fused, before giving up."""

MAX_NODES = 20_000
"""Larger graphs (recurrences unrolled over hundreds of steps) stay with torch."""

_DEFAULT = FusionOptions()


def lower(captured: Captured, options: FusionOptions = _DEFAULT) -> Program:
    """Return the program of a captured graph; what cannot be generated stays a call of torch."""
    return analyse(captured, options).program


def analyse(captured: Captured, options: FusionOptions = _DEFAULT) -> Lowered:
    """Return the program with the decisions behind it."""
    if not options.enabled or len(captured.graph.nodes) > MAX_NODES:
        return _as_calls(captured)
    try:
        return fuse(captured, options)
    except Exception:  # a mistake of ours must not cost the run: torch can carry out all of it
        _log.exception("lowering failed; the graph runs through torch")
        return _as_calls(captured)


def fuse(captured: Captured, options: FusionOptions) -> Lowered:
    """Lower with generated code wherever possible; raises LoweringError when too much stands in the way."""
    stored: set[str] = set()
    calls = set(options.as_calls)
    for _ in range(MAX_OBSTACLES):
        graph = translate(captured, enabled=True, as_calls=frozenset(calls))
        try:
            return Planner(captured, graph, options).run(stored)
        except BlockedError as obstacle:
            value = obstacle.value
            if isinstance(value, Inline) and value.name not in stored:
                stored.add(value.name)
            else:
                calls.add((obstacle.reader or value).node)
    raise LoweringError(f"more than {MAX_OBSTACLES} values could not be fused")


def _as_calls(captured: Captured) -> Lowered:
    graph = translate(captured, enabled=False, as_calls=frozenset())
    return Planner(captured, graph, FusionOptions(enabled=False)).run(frozenset())
