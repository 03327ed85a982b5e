"""Lower a captured graph to the loop IR, fusing what shares a loop."""

import logging
from dataclasses import replace
from functools import lru_cache

from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower.fuse import MemoryPlan
from kernelwright.ir.lower.plan import Lowered, RegionBuilder
from kernelwright.ir.lower.pointwise import UnsupportedError
from kernelwright.ir.lower.translate import translate
from kernelwright.ir.lower.values import BlockedError, Inline
from kernelwright.ir.program import Program
from kernelwright.tasks.capture import Captured

_log = logging.getLogger(__name__)

MAX_OBSTACLES = 60
"""Values stored and operators left to torch because they could not be fused, before giving up."""

MAX_NODES = 20_000
"""Larger graphs (recurrences unrolled over hundreds of steps) stay with torch."""

MAX_REASON = 300
"""Characters of a reason for giving up."""

MAX_KEPT = 16
"""Lowered graphs kept, the latest asked for: every edit looks for its places in the same one. Ours."""

_DEFAULT = FusionOptions()


def lower(captured: Captured, options: FusionOptions = _DEFAULT) -> Program:
    """Return the program of a captured graph; what cannot be generated stays a call of torch.

    Where nothing could be generated, ``Program.given_up`` says why.
    """
    return analyse(captured, options).program


@lru_cache(MAX_KEPT)
def analyse(captured: Captured, options: FusionOptions = _DEFAULT) -> Lowered:
    """Return the program with the decisions behind it, to read alone: who asks again gets the same."""
    if not options.enabled:
        return _as_calls(captured)
    n_nodes = len(captured.graph.nodes)
    if n_nodes > MAX_NODES:
        return _given_up(captured, f"the graph has {n_nodes} nodes, lowering takes at most {MAX_NODES}")
    try:
        return fuse(captured, options)
    except LoweringError as error:
        return _given_up(captured, _one_line(str(error)))
    except Exception as error:  # a mistake of ours must not cost the run: torch can carry out all of it
        _log.exception("lowering failed; the graph runs through torch")
        return _given_up(captured, _one_line(f"a defect of ours: {type(error).__name__}: {error}"))


def fuse(captured: Captured, options: FusionOptions) -> Lowered:
    """Lower with generated code wherever possible; raises LoweringError when too much stands in the way."""
    stored: set[str] = set()
    calls = set(options.as_calls)
    graph, memory = None, MemoryPlan()
    for _ in range(MAX_OBSTACLES):
        if graph is None:
            graph = translate(captured, enabled=True, as_calls=frozenset(calls), own=options.own)
        else:
            graph.restore()
        try:
            return RegionBuilder(captured, graph, options, memory).run(stored)
        except BlockedError as obstacle:
            value = obstacle.value
            if isinstance(value, Inline) and value.name not in stored:
                stored.add(value.name)
            else:
                calls.add((obstacle.reader or value).node)
                graph = None
        except UnsupportedError as form:
            if form.node in ("", *calls):
                raise
            calls.add(form.node)
            graph = None
    raise LoweringError(f"more than {MAX_OBSTACLES} values could not be fused")


def _given_up(captured: Captured, reason: str) -> Lowered:
    lowered = _as_calls(captured)
    return replace(lowered, program=replace(lowered.program, given_up=reason))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_REASON]


def _as_calls(captured: Captured) -> Lowered:
    graph = translate(captured, enabled=False, as_calls=frozenset())
    return RegionBuilder(captured, graph, FusionOptions(enabled=False), MemoryPlan()).run(frozenset())
