"""What counts as a candidate's own: declared before it is judged, shown with the verdict."""

from enum import StrEnum

from kernelwright.core.frozen import Frozen


class LibraryCalls(StrEnum):
    """May a candidate leave the work to torch and its libraries?"""

    ALLOWED = "allowed"
    """Yes. What it dispatched is among the facts; who wants own kernels only can look there."""
    FORBIDDEN = "forbidden"
    """No: besides allocating, viewing and copying it must compute with code of its own, which must matter."""


class WeightPreparation(StrEnum):
    """May work on the weights be done once, ahead of the calls?"""

    IN_EVERY_CALL = "in_every_call"
    """No: weights are exchanged between calls, and whatever is made of them is paid for in every call."""


class Policy(Frozen):
    """The rules of one referee. The precision allowed belongs to the task (``Task.tolerance``)."""

    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    weight_preparation: WeightPreparation = WeightPreparation.IN_EVERY_CALL
    precision: str | None = None
    """The task's tolerance policy, filled in with the verdict."""
