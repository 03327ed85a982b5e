"""What counts as a candidate's own work: declared before the evaluation, shown with the verdict."""

from enum import StrEnum

from kernelwright.core.frozen import Frozen


class LibraryCalls(StrEnum):
    """May a candidate leave the work to torch and its libraries?"""

    ALLOWED = "allowed"
    """Yes. The evaluation lists the library calls, for readers who want own kernels only."""
    FORBIDDEN = "forbidden"
    """No: everything but allocating, viewing and copying must be code of its own, and the result must depend
    on that code."""


class WeightPreparation(StrEnum):
    """May work on the weights be done once, ahead of the calls?"""

    IN_EVERY_CALL = "in_every_call"
    """No: weights change between calls, so every call pays for what it computes from them."""


class Policy(Frozen):
    """The rules of one referee. The precision allowed belongs to the task (``Task.tolerance``)."""

    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    weight_preparation: WeightPreparation = WeightPreparation.IN_EVERY_CALL
    precision: str | None = None
    """The task's tolerance policy, filled in with the verdict."""
