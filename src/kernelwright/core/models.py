"""Which language models a run may ask, and how. Holds no key: those come from the environment alone."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen
from kernelwright.core.model_call import Price

OutputMode = Literal["auto", "tool", "native", "prompted"]
"""How structured answers are asked for: by a tool call, by the server's own JSON-schema mode, or in the
prompt alone, which every server copes with. ``auto``: what ``preflight`` finds that a server can."""

StreamMode = Literal["auto", "off"]
"""``auto``: answers come piece by piece where ``preflight`` finds that a server can send them so."""

CallMode = Literal["merged", "separate"]
"""``merged``: one answer holds the plan and its kernel, or the diagnosis and the repair. ``separate``: two
requests, as the published systems make them."""

Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
"""How long a reasoning model is asked to think; a server may know fewer steps."""


def _without_credentials(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"the base URL {parts.hostname or '(no host)'} must begin with http:// or https://")
    if parts.username or parts.password or parts.query:
        raise UserError(
            f"the base URL of {parts.hostname} holds credentials; give them in KERNELWRIGHT_API_KEY instead"
        )
    return url.rstrip("/")


def _well_formed(model: str | None) -> str | None:
    if model is not None and not all(model.partition(":")):
        raise UserError(f"the model {model!r} must be written as provider:name, e.g. openai:gpt-5")
    return model


class RoleModel(Frozen):
    """What one role asks for instead of the run's defaults; None keeps the default."""

    model: str | None = None
    base_url: str | None = None
    """Where it differs in provider from the default model and this is None: the provider's own address."""
    temperature: float | None = Field(default=None, ge=0)
    max_output_tokens: int | None = Field(default=None, gt=0)
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)

    _model = field_validator("model")(_well_formed)
    _base_url = field_validator("base_url")(_without_credentials)


class ModelChoice(Frozen):
    """The settings of one role, with the defaults filled in."""

    model: str
    """``provider:name``."""
    base_url: str | None
    temperature: float | None
    max_output_tokens: int
    usd_per_million_input: float | None
    usd_per_million_output: float | None

    @property
    def provider(self) -> str:
        """What stands before the colon."""
        return self.model.partition(":")[0]

    @property
    def name(self) -> str:
        """What stands after the colon; may itself hold colons."""
        return self.model.partition(":")[2]

    @property
    def place(self) -> str:
        """Model and address, for messages and prices: one name at two servers is two models."""
        return f"{self.model} at {self.base_url}" if self.base_url else self.model


class ModelSettings(Frozen):
    """The models of a run, stored with its spec; raises UserError for a malformed model or base URL."""

    model: str
    """``provider:name``, any provider of pydantic-ai."""
    base_url: str | None = None
    """Of a server that speaks the provider's protocol: chat completions for ``openai``, Messages for
    ``anthropic``; no other provider takes one."""
    temperature: float | None = Field(default=None, ge=0)
    """None: the server's default."""
    max_output_tokens: int = Field(default=8192, gt=0)
    """Asked of the server for one answer, with what the model thinks; our choice."""
    effort: Effort | None = None
    """Of reasoning models; None: the server's default."""
    context_tokens: int | None = Field(default=None, gt=0)
    """What prompt and answer together may take, where that is less than the roles' own windows need."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Wall time of one request, whatever the server does; of a streamed answer until the first piece and from
    each piece to the next. Our choice."""
    max_reply_bytes: int = Field(default=8 << 20, gt=0)
    """Of one answer on the wire; our choice."""
    output_mode: OutputMode = "auto"
    output_modes: dict[str, OutputMode] = Field(default_factory=dict)
    """By place, what ``auto`` turned out to be when the run began; a resumed run keeps to it."""
    calls: CallMode = "merged"
    kernels_per_call: int = Field(default=1, ge=1)
    """Kernels that one answer may hold; each becomes a candidate of its own."""
    concurrency: int = Field(default=1, ge=1)
    """Requests under way at once, where questions do not depend on each other's answers."""
    tool_calls: int = Field(default=3, ge=0)
    """Calls of tools that a model may make before one answer; our choice."""
    stream: StreamMode = "auto"
    streaming: tuple[str, ...] = ()
    """Places whose answers come piece by piece, as was found out when the run began; a resumed run keeps to
    it."""
    without_tools: tuple[str, ...] = ()
    """Places whose servers took no tools when the run began; a resumed run keeps to it."""
    roles: dict[str, RoleModel] = Field(default_factory=dict)
    """By role: what it asks for instead."""
    usd_per_million_input: float | None = Field(default=None, ge=0)
    """The price where no list knows it; both or neither."""
    usd_per_million_output: float | None = Field(default=None, ge=0)
    prices: tuple[Price, ...] = ()
    """The snapshot taken when the run began; a resumed run keeps to it."""
    instrument: bool = False
    """Emit OpenTelemetry spans of the run, to whatever exporter the process has configured."""

    _model = field_validator("model")(_well_formed)
    _base_url = field_validator("base_url")(_without_credentials)

    def prompt_tokens(self) -> int | None:
        """Return what the context leaves for a prompt, None where no context is given.

        Raises:
            UserError: the answer alone would fill it.
        """
        if self.context_tokens is None:
            return None
        answer = max(choice.max_output_tokens for choice in map(self.for_role, ("", *self.roles)))
        if answer >= self.context_tokens:
            raise UserError(
                f"a context of {self.context_tokens} tokens has no room for a prompt beside an answer of "
                f"{answer}: lower the limit of output tokens"
            )
        return self.context_tokens - answer

    def tool_calls_of(self, role: str) -> int:
        """Return the calls of tools that a role may make before one answer."""
        return 0 if self.for_role(role).place in self.without_tools else self.tool_calls

    def output_mode_of(self, role: str) -> OutputMode:
        """Return how a role's structured answers are asked for; never ``auto``."""
        if self.output_mode != "auto":
            return self.output_mode
        return self.output_modes.get(self.for_role(role).place, "prompted")

    def for_role(self, role: str) -> ModelChoice:
        """Return what the role asks for.

        A role that names a model of its own inherits no price, and the base URL only within a provider.
        """
        own = self.roles.get(role, RoleModel())
        model = own.model or self.model
        is_same_provider = model.partition(":")[0] == self.model.partition(":")[0]
        base_url = own.base_url or (self.base_url if is_same_provider else None)
        is_default_model = model == self.model and base_url == self.base_url
        has_own_price = own.usd_per_million_input is not None or own.usd_per_million_output is not None
        pricer = own if has_own_price or not is_default_model else self
        return ModelChoice(
            model=model,
            base_url=base_url,
            temperature=self.temperature if own.temperature is None else own.temperature,
            max_output_tokens=own.max_output_tokens or self.max_output_tokens,
            usd_per_million_input=pricer.usd_per_million_input,
            usd_per_million_output=pricer.usd_per_million_output,
        )

    def with_temperatures(self, temperatures: Mapping[str, float]) -> "ModelSettings":
        """Return the settings with a recipe's temperatures for the roles to which the user gave none."""
        if self.temperature is not None:
            return self
        roles = dict(self.roles)
        for role, temperature in temperatures.items():
            own = roles.get(role, RoleModel())
            if own.temperature is None:
                roles[role] = own.model_copy(update={"temperature": temperature})
        return self.model_copy(update={"roles": roles})

    def choices(self) -> tuple[ModelChoice, ...]:
        """Return the default's and every role's settings, one for each place, in order of first mention."""
        every = [self.for_role(""), *(self.for_role(role) for role in self.roles)]
        return tuple({choice.place: choice for choice in reversed(every)}.values())[::-1]

    def price_of(self, choice: ModelChoice) -> Price | None:
        """Return the snapshot's price, None when it is unknown."""
        return next((price for price in self.prices if price.model == choice.place), None)
