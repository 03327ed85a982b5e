"""What was asked of a language model, what it answered, and what that cost."""

from collections.abc import Mapping
from enum import StrEnum

from kernelwright.core.frozen import Encodable, Frozen


class CallOutcome(StrEnum):
    """How one call to a model ended. Everything but OK leaves the search without an answer."""

    OK = "ok"
    # What a model does.
    EMPTY = "empty"
    """Nothing, or white space."""
    NO_CODE = "no_code"
    """Prose where a kernel was asked for."""
    SEVERAL_BLOCKS = "several_blocks"
    """More than one block defines ``ModelNew``: which was meant is not ours to guess."""
    INVALID_OUTPUT = "invalid_output"
    """No JSON, or JSON that the schema refuses, after the retries."""
    TRUNCATED = "truncated"
    """Cut off at the limit of output tokens."""
    REFUSED = "refused"
    """The model or its content filter declines."""
    REFERENCE_RETURNED = "reference_returned"
    """The reference under another name."""
    HIDES_REFERENCE = "hides_reference"
    """A kernel inside ``try`` with the reference's own operators as the way out."""
    WRONG_LANGUAGE = "wrong_language"
    """A kernel for another target than the one asked for."""
    UNRESOLVED_ANCHOR = "unresolved_anchor"
    """A span marked for change was left marked, or its plan item has no account."""
    # What an API does.
    UNAUTHORISED = "unauthorised"
    UNKNOWN_MODEL = "unknown_model"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    BAD_REQUEST = "bad_request"
    """The server refuses the request itself, e.g. a prompt beyond the model's context."""
    TIMED_OUT = "timed_out"
    DISCONNECTED = "disconnected"
    """Refused, reset, or a stream that stopped."""
    MALFORMED_REPLY = "malformed_reply"
    """An answer that is not the protocol's."""

    @property
    def is_api_failure(self) -> bool:
        """True when the API failed and not the model."""
        return self in API_FAILURES


API_FAILURES = frozenset(
    {
        CallOutcome.UNAUTHORISED,
        CallOutcome.UNKNOWN_MODEL,
        CallOutcome.RATE_LIMITED,
        CallOutcome.SERVER_ERROR,
        CallOutcome.BAD_REQUEST,
        CallOutcome.TIMED_OUT,
        CallOutcome.DISCONNECTED,
        CallOutcome.MALFORMED_REPLY,
    }
)


def answers_sentence(answers: Mapping[str, int]) -> str:
    """Return one sentence on answers counted by outcome, named or as CallOutcome.

    Example:
        >>> answers_sentence({"ok": 28, "no_code": 7, "invalid_output": 5})
        '12 of 40 answers were unusable: 7 no code, 5 invalid output'
    """
    counts = {CallOutcome(name): n for name, n in answers.items() if n}
    total = sum(counts.values())
    unusable = total - counts.get(CallOutcome.OK, 0)
    if not total:
        return "no question was asked of a model"
    if not unusable:
        return f"all {total} answers were usable" if total > 1 else "the one answer was usable"
    kinds = ", ".join(
        f"{n} {outcome.value.replace('_', ' ')}"
        for outcome, n in counts.items()
        if outcome is not CallOutcome.OK
    )
    if all(outcome.is_api_failure for outcome in counts):
        return f"every call failed: {kinds}"
    return f"{unusable} of {total} answers were unusable: {kinds}"


class Price(Frozen):
    """What a model costs, as it was when the run began."""

    model: str
    usd_per_million_input: float
    usd_per_million_output: float
    source: str
    """Where the figures come from, with version or date."""

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return US dollars."""
        return (input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output) / 1e6


class Question(Frozen):
    """What a request asks for, without its words: a recorded run is replayed by this."""

    role: str
    model: str
    """``provider:name``."""
    answer: Encodable
    """``text``, or how JSON is asked for and its fields: ``prompted JSON (skill, why)``."""
    n_rejected: int = 0
    """Answers to it that were refused before."""
    max_tokens: int | None = None
    temperature: float | None = None

    def __str__(self) -> str:
        """Return it for a message to the user."""
        limits = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        said = "".join(f", {name} {value}" for name, value in limits.items() if value is not None)
        again = f", after {self.n_rejected} refused" if self.n_rejected else ""
        return f"{self.role or 'nobody in particular'} ({self.model}{said}) for {self.answer}{again}"


class ModelCall(Frozen):
    """One request and its answer, as recorded: enough to replay it and to account for it."""

    key: str
    """Content hash of role, model, settings and messages, and of how often they came before in the run."""
    question: Question | None = None
    """None in records of versions that did not keep it."""
    role: str
    model: str
    """``provider:name``."""
    tool: str | None = None
    """Name of the tool that this model had called and that was carried out; None: a request to the model."""
    request: Encodable
    """Messages as JSON; holds no key."""
    response: Encodable | None
    """The answer as JSON; None when there was none."""
    outcome: CallOutcome
    """Of the transport."""
    detail: str = ""
    judged: CallOutcome | None = None
    """What the role made of the answer where it could not use it; None: it could, or there was none."""
    judged_detail: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """None when the model's price is unknown."""
    seconds: float = 0.0

    def judged_as(self, outcome: CallOutcome, detail: str) -> "ModelCall":
        """Return the call with what a role made of its answer."""
        return self.model_copy(update={"judged": outcome, "judged_detail": detail})
