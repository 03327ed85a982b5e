"""Where a whole model's time goes, before and after, kind of block by kind of block."""

from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.events import ModelTakenApart
from kernelwright.report.measures import millis, percent, times
from kernelwright.report.table import Table

HEADER = ("Block", "Times", "Share", "Before", "After", "One block", "What became of it")
REST = "everything else"
PATHS_SHOWN = 3


def block_table(apart: ModelTakenApart, winner: str | None) -> Table:
    """Return the table; ``winner`` is the composition that is delivered, None: the model is unchanged.

    Times are of a profile in the process that asked; speedups are the referee's.
    """
    rows = [_row(block, _standing(apart, number, winner)) for number, block in enumerate(apart.blocks)]
    rest = apart.before_ms - sum(block.before_ms for block in apart.blocks)
    after = None
    if apart.after_ms is not None:
        after = apart.after_ms - sum(b.before_ms if b.after_ms is None else b.after_ms for b in apart.blocks)
    share = rest / apart.before_ms if apart.before_ms else 0.0
    rows.append((REST, "", percent(max(share, 0.0)), _ms(rest), _ms(after), "", ""))
    rows.append(("whole model", "", percent(1.0), _ms(apart.before_ms), _ms(apart.after_ms), "", ""))
    return Table(HEADER, tuple(rows), numbers=HEADER[1:-1])


def composition_lines(apart: ModelTakenApart, winner: str | None) -> tuple[str, ...]:
    """Return lines that say how the model is delivered."""
    way = next((way for way in apart.compositions if way.candidate == winner), None)
    if way is None:
        reason = f": {apart.note}" if apart.note else ", as no way to put it together was faster"
        here = [line for way in apart.compositions for line in _in_process(way)]
        return (f"The model is delivered unchanged{reason}.", *here)
    if way.is_one:
        return ("Delivered: one program of the whole model, with no block apart.",)
    if way.is_compiled_alone:
        reason = apart.note or "no way to put it together with kernels was faster"
        return (f"Delivered: torch.compile of the model as it is, without a kernel: {reason}.",)
    around = "torch.compile takes in the rest" if way.is_compiled else "the rest runs eager"
    n_blocks = sum(len(apart.blocks[kind].paths) for kind in way.kinds)
    return (f"Delivered: {len(way.kinds)} kernels in {n_blocks} blocks; {around}.", *_in_process(way))


def _row(block: BlockShare, standing: str) -> tuple[str, ...]:
    shown = ", ".join(block.paths[:PATHS_SHOWN]) + (", …" if len(block.paths) > PATHS_SHOWN else "")
    return (
        f"{block.name} ({shown})",
        str(len(block.paths)),
        percent(block.share),
        _ms(block.before_ms),
        _ms(block.after_ms),
        "" if block.speedup is None else times(block.speedup),
        standing,
    )


def _standing(apart: ModelTakenApart, number: int, winner: str | None) -> str:
    block = apart.blocks[number]
    if block.candidate is None:
        return block.note
    stored = ", an answer of the store" if block.is_stored else ""
    way = next((way for way in apart.compositions if way.candidate == winner), None)
    if way is None or number not in way.kinds:
        return f"kernel verified, not delivered{stored}"
    return f"kernel delivered{stored}"


def _in_process(way: Composition) -> tuple[str, ...]:
    if way.in_process is None:
        return ()
    found = way.in_process.against("the original")
    return (f"In the process that asked, {way.words}: {found}, timed in turn.",)


def _ms(ms: float | None) -> str:
    return "" if ms is None else millis(max(ms, 0.0))
