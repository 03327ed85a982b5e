"""The sums over all outcomes, brought up to date in the transaction that adds outcomes."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.engine import Connection, Row

from kernelwright.core.frozen import content_hash
from kernelwright.core.run import Outcome
from kernelwright.core.tally import (
    EffectKey,
    Histogram,
    Tally,
    TallyKey,
    histograms_of,
    tallies_of,
)
from kernelwright.store.schema import tallies
from kernelwright.store.sqlrecords import read_notes, write_notes

CONTEXT, EFFECT, TASK, PROGRESS = "context", "effect", "task", "progress"
"""Topics: tallies and histograms by their keys, tasks by their ids, and how far was counted."""
_COUNTED = (PROGRESS, "outcomes")


def count(connection: Connection, added: Sequence[Outcome], last: int) -> None:
    """Take outcomes into the sums; ``last`` is the number of the newest. The ledger is locked."""
    if not added:
        return
    contexts = {(CONTEXT, content_hash(*key)): (key, more) for key, more in tallies_of(added).items()}
    effects = {(EFFECT, content_hash(*key)): (key, more) for key, more in histograms_of(added).items()}
    written = {(TASK, content_hash(task)): json.dumps(task) for task in {o.task_id for o in added}}
    written[_COUNTED] = str(last)
    known = read_notes(connection, tallies, [*contexts, *effects])
    for name, (key, tally) in contexts.items():
        if name in known:
            tally = tally.plus(Tally(*json.loads(known[name])[1]))
        written[name] = json.dumps([key, tally])
    for name, (group, histogram) in effects.items():
        if name in known:
            histogram = histogram.plus(Histogram.from_plain(json.loads(known[name])[1]))
        written[name] = json.dumps([group, histogram.plain()])
    write_notes(connection, tallies, written)


def read_tallies(rows: Iterable[Row[Any]]) -> tuple[int, dict[TallyKey, Tally]]:
    """Return the number of the last outcome that was counted, and the tallies."""
    counted, found = 0, {}
    for row in rows:
        if row.topic == PROGRESS:
            counted = int(row.payload)
        else:
            key, sums = json.loads(row.payload)
            found[TallyKey(*key)] = Tally(*sums)
    return counted, found


def read_histograms(rows: Iterable[Row[Any]]) -> dict[EffectKey, Histogram]:
    """Return the histograms."""
    known = (json.loads(row.payload) for row in rows)
    return {EffectKey(*key): Histogram.from_plain(plain) for key, plain in known}
