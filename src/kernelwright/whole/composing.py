"""Which ways to put a model together are tried, and which verdict lets one be delivered. Pure."""

from collections.abc import Sequence

from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.evaluation import Evaluation

COMPILED_ALONE: tuple[tuple[int, ...], bool] = ((), True)
"""No kernel, and torch.compile of everything: what a model must be as fast as, whatever kernels do."""
AS_ONE: tuple[tuple[int, ...], bool] = ((), False)
"""No block apart: one program of the whole model."""


def compositions(blocks: Sequence[BlockShare]) -> tuple[tuple[tuple[int, ...], bool], ...]:
    """Return which kinds have their kernels and whether torch.compile takes in the rest, each way once.

    All kernels, and those alone that are faster than torch.compile of their block: where it is, the compiled
    model may have the block too. Two ways have no block's kernel: one program of the whole model, and
    torch.compile of the model as it is.
    """
    won = tuple(i for i, block in enumerate(blocks) if block.candidate is not None)
    better = tuple(i for i in won if blocks[i].beats_compiler)
    ways = [(won, False), AS_ONE, (won, True), COMPILED_ALONE, (better, True), (better, False)]
    return tuple(dict.fromkeys(ways))


def is_delivered(evaluation: Evaluation, ways: Sequence[Composition] = ()) -> bool:
    """Say whether a model is delivered: faster than eager, and slower than no baseline on any workload.

    What the referee judged in its place may be faster than the model with its own Python around the blocks.
    So a way that was timed in the process that asked must hold against both there too. Where torch.compile
    takes the model as it is, that model alone counts, which ordinary processes timed.
    """
    way = next((way for way in ways if way.candidate == evaluation.candidate_id), None)
    stands_in = () if way is not None and way.is_compiled_alone else evaluation.results
    results = (*evaluation.told, *stands_in)
    verdicts = [speedup.verdict for result in results for speedup in result.speedups]
    if not evaluation.is_faster or "slower" in verdicts:
        return False
    here = None if way is None else way.in_process
    if here is None:
        return True
    over_eager, over_compiled = (evaluation.geomean_speedup(name) for name in ("eager", "torch_compile"))
    compiled = 1.0 if over_eager is None or over_compiled is None else over_eager / over_compiled
    return here.high >= max(compiled, 1.0)
