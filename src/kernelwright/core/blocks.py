"""A model taken apart: where its time goes by kinds of blocks, and how it was put together again."""

from kernelwright.core.evaluation import Speedup
from kernelwright.core.frozen import Frozen


class BlockShare(Frozen):
    """One kind of block of a model."""

    name: str
    """Class of the blocks."""
    paths: tuple[str, ...]
    """Dotted names of the blocks in the model."""
    before_ms: float
    """Time in all of them during one call of the model, as it was given."""
    share: float
    """Of the time of the whole call."""
    after_ms: float | None = None
    """The same time with the kernel in their place; None: there is none, or it is for another machine."""
    run_id: str | None = None
    """The run that optimised the kind; None: there was none."""
    candidate: str | None = None
    """Its winner; None: nothing was faster."""
    speedup: float | None = None
    """Of one block over eager, by the referee."""
    beats_compiler: bool = False
    """The referee found the kernel faster than torch.compile of the block."""
    note: str = ""
    """Why there is no kernel."""
    is_stored: bool = False
    """The answer was in the store already."""

    @property
    def has_ended(self) -> bool:
        """True once it is known whether there is a kernel."""
        return self.run_id is not None or bool(self.note)


class Composition(Frozen):
    """One way to put a model together, as a candidate."""

    candidate: str
    """Id of the program that the referee judged."""
    kinds: tuple[int, ...]
    """Which kinds of blocks have their kernels, by position; none: see the properties."""
    is_compiled: bool = False
    """torch.compile took in what lies around the kernels."""
    in_process: Speedup | None = None
    """Of the patched model over the original, in turn in the process that asked; None: not timed there."""

    @property
    def is_one(self) -> bool:
        """True where no block is apart: one generated program computes the whole model."""
        return not self.kinds and not self.is_compiled

    @property
    def is_compiled_alone(self) -> bool:
        """True where torch.compile takes the model as it is, without a kernel of ours."""
        return not self.kinds and self.is_compiled

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.is_one:
            return "as one program"
        if not self.kinds:
            return "torch.compile alone"
        return f"{'compiled around' if self.is_compiled else 'eager around'} {len(self.kinds)} kernels"
