"""What counts as a candidate's own work: declared before the evaluation, shown with the verdict."""

from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from kernelwright.core.frozen import Frozen


class LibraryCalls(StrEnum):
    """May a candidate leave the work to torch and its libraries?"""

    ALLOWED = "allowed"
    """Yes. The evaluation lists the library calls, for readers who want own kernels only."""
    FORBIDDEN = "forbidden"
    """No: everything but allocating, viewing and copying must be code of its own, and the result must depend
    on that code."""


class Weights(StrEnum):
    """May work on the weights be done once, ahead of the calls?"""

    EVERY_CALL = "every_call"
    """No: weights change between calls, so every call pays for what it computes from them."""
    FROZEN = "frozen"
    """Yes: weights stay as they are while a process lives, so they may be prepared at its first call."""

    @classmethod
    def _missing_(cls, value: object) -> "Weights | None":
        """Take the command line's spelling too: ``every-call``."""
        return next((one for one in cls if str(value).replace("-", "_") == one.value), None)

    @property
    def words(self) -> str:
        """Return what a verdict says."""
        return WEIGHTS_WORDS[self]


WEIGHTS_WORDS = {
    Weights.EVERY_CALL: "weights prepared in every call",
    Weights.FROZEN: "weights prepared once per change of weights",
}


class Nonfinite(StrEnum):
    """What must a candidate make of NaN and infinity in its inputs?"""

    AUTO = "auto"
    """The same outputs are not finite as the reference's, where a NaN reaches only its own row or element
    there. Elsewhere nothing is asked."""
    SAME = "same"
    """NaN and infinities are the reference's, of the same sign, in all inputs."""
    IGNORED = "ignored"
    """Nothing: inputs are never NaN or infinite."""

    @property
    def words(self) -> str:
        """Return what a verdict says."""
        return NONFINITE_WORDS[self]


NONFINITE_WORDS = {
    Nonfinite.AUTO: "NaN and infinity judged where they stay in their row",
    Nonfinite.SAME: "NaN and infinity as the reference has them",
    Nonfinite.IGNORED: "NaN and infinity not judged",
}


PEAK_MEMORY = 1.25
"""How many times the original's peak memory a delivered module may take by default; our choice."""


class Policy(Frozen):
    """The rules of one referee. The precision allowed belongs to the task (``Task.tolerance``)."""

    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    weights: Weights = Weights.EVERY_CALL
    nonfinite: Nonfinite = Nonfinite.AUTO
    peak_memory: float = Field(default=PEAK_MEMORY, gt=0)
    """How many times the original's peak memory a final allows what is delivered; earlier versions did not
    ask. See ``Evaluation.ordinary``."""
    precision: str | None = None
    """The task's tolerance policy, filled in with the verdict."""

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, values: Any) -> Any:
        """Read ``weight_preparation``, in verdicts stored by earlier versions."""
        if isinstance(values, dict) and "weight_preparation" in values:
            return {key: value for key, value in values.items() if key != "weight_preparation"}
        return values
