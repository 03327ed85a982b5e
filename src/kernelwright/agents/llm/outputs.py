"""What models answer where code has to read it. Field descriptions are part of the prompt."""

from pydantic import BaseModel, ConfigDict, Field


class Output(BaseModel):
    """Base of every structured answer; fields that were not asked for are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class ProposedMove(Output):
    """One change."""

    skill: str
    """Exactly one of the names or labels offered."""
    why: str
    """One sentence: which evidence speaks for it."""
    evidence: list[str] = Field(default_factory=list)
    """Facts quoted from the prompt with their numbers, e.g. "run.floor_fraction = 0.31"."""
    expects: str = ""
    """Which metric changes, in which direction and by how much, e.g. "run.latency_ms -30 %"."""
    steps: list[str] = Field(default_factory=list)
    """What to change in the source, in order; one thing a step, naming functions, loops and sizes."""
    differs: str = ""
    """If the skill was tried on this base: what is different this time. Else empty."""


class AnchoredMove(ProposedMove):
    """One change and where in the source it is to be made."""

    anchored_source: str
    """The base's source, unchanged but for the markers around each span to change."""


class RootCause(Output):
    """Why a kernel fails."""

    critical_issue: str
    """The one failure to mend first, in one sentence."""
    quotes: list[str] = Field(min_length=1)
    """Verbatim excerpts of the failure or its log that show it."""
    root_cause: str
    """What in the source causes it; name the function or line."""
    trigger: str = ""
    """When it happens: always, for some inputs, shapes or weights."""
    must_hold: list[str] = Field(default_factory=list)
    """What the repair must not break."""
    minimal_fix: str
    """The smallest change that removes the cause."""
    confidence: float = Field(default=0.5, ge=0, le=1)
    """0 to 1."""


class PickedPair(Output):
    """Which kernel to experiment on, and which to compare it with."""

    base: str
    """Id of a verified kernel of the table."""
    reference: str
    """Id of another verified kernel of the table that is an informative contrast."""
    why: str
    """One or two sentences, with latencies."""


class ProposedExperiment(ProposedMove):
    """One experiment with the designer's own rating."""

    gain_low: float = Field(ge=-1, le=1)
    """Least gain to be expected, as a fraction of the latency: 0.1 is ten per cent."""
    gain_high: float = Field(ge=-1, le=1)
    """Largest gain to be expected."""
    innovation: float = Field(ge=0, le=1)
    """0: routine; 1: never seen."""


class ProposedDesign(Output):
    """Avenues first, to widen the view; then experiments."""

    avenues: list[str]
    """Different directions, one sentence each."""
    experiments: list[ProposedExperiment]
    """Concrete changes of the base."""


class ProposedPlan(Output):
    """An ordered list of changes."""

    moves: list[ProposedMove] = Field(min_length=1)
    """In the order in which they are to be carried out."""


class ProposedPlans(Output):
    """Several plans that differ in more than wording."""

    plans: list[ProposedPlan] = Field(min_length=1)
    """Each complete in itself."""


class PlanItem(Output):
    """What became of one step of the announced plan."""

    number: int
    """Number of the step in the plan."""
    is_carried_out: bool
    """Whether the source does it."""
    what: str = ""
    """If the source does it otherwise than announced: what it really does. Else empty."""


class AlignedPlan(Output):
    """What a source really does."""

    items: list[PlanItem]
    """One for each step of the plan."""
    unannounced: list[str] = Field(default_factory=list)
    """Changes against a plain implementation that the plan does not mention, one sentence each."""
