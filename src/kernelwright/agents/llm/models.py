"""From ``provider:name`` to a connected pydantic-ai model, or to one clear line about what is missing."""

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import get_args
from urllib.parse import urlsplit

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import models as sdk_models
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from kernelwright.agents.llm.keys import SECRET_NAME, Keys
from kernelwright.agents.llm.outcomes import ReplyTooLong
from kernelwright.core.errors import UserError
from kernelwright.core.hosts import is_loopback
from kernelwright.core.models import ModelChoice, ModelSettings

OPENAI = ("openai", "openai-chat", "openai-responses")
ANTHROPIC = "anthropic"
TAKE_OUR_HTTP_CLIENT = frozenset(
    {*OPENAI, ANTHROPIC, "deepseek", "fireworks", "litellm", "ollama", "openrouter", "together", "vllm"}
)
"""Providers through whose SDK we can count bytes; the others are bounded by wall time alone."""
CONNECT_TIMEOUT_S = 10.0
"""Ours."""


def known_providers() -> tuple[str, ...]:
    """Return the names that may stand before the colon."""
    known = get_args(sdk_models.KnownModelName.__value__)
    compatible = get_args(sdk_models.OpenAIChatCompatibleProvider.__value__)
    names = {name.partition(":")[0] for name in known if ":" in name} | set(compatible) | set(OPENAI)
    return tuple(sorted(name for name in names if "/" not in name))


def make_model(
    settings: ModelSettings,
    role: str,
    *,
    keys: Keys | None = None,
    http_client: httpx2.AsyncClient | None = None,
) -> sdk_models.Model:
    """Return the role's model, set up but not yet asked anything.

    Raises:
        UserError: no such provider, its SDK is not installed, or its key is not in the environment.
    """
    choice, keys = settings.for_role(role), keys or Keys()
    http_client = http_client or _http_client(settings, role)
    try:
        if choice.base_url:
            return _elsewhere(choice, choice.base_url, keys, http_client)
        _require_provider(choice)
        return sdk_models.infer_model(choice.model, lambda name: _provider(name, http_client))
    except UserError:
        raise
    except ImportError as missing:
        named = re.search(r"pydantic-ai-slim\[[^]]+\]", str(missing))
        install = named.group() if named else f"pydantic-ai-slim[{choice.provider}]"
        raise UserError(f"{choice.model}: its SDK is missing: pip install '{install}'") from None
    except Exception as error:
        raise UserError(_setup_line(choice, keys.scrub(str(error)))) from None


def _require_provider(choice: ModelChoice) -> None:
    try:
        infer_provider_class(choice.provider)
    except ImportError:
        return  # the provider exists, its SDK does not; told of where the model is made
    except ValueError:
        raise UserError(
            f"unknown provider {choice.provider!r}; known: {', '.join(known_providers())}; "
            "any OpenAI-compatible server: openai:NAME with a base URL"
        ) from None


def _provider(name: str, http_client: httpx2.AsyncClient) -> Provider[AsyncOpenAI]:
    if name not in TAKE_OUR_HTTP_CLIENT:
        return infer_provider(name)
    made: Provider[AsyncOpenAI] = infer_provider_class(name)(http_client=http_client)  # type: ignore[call-arg]
    return made


def _setup_line(choice: ModelChoice, said: str) -> str:
    variables = re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", said)
    if variables:
        what = "no key; set" if SECRET_NAME.search(variables[0]) else "not set up; set"
        return f"{choice.model}: {what} {variables[0]} in the environment"
    return f"{choice.model} cannot be set up: {' '.join(said.split())}"


def _elsewhere(
    choice: ModelChoice, base_url: str, keys: Keys, http_client: httpx2.AsyncClient
) -> sdk_models.Model:
    """Return a model at any address; a provider's own key is never sent there."""
    if choice.provider not in (*OPENAI, ANTHROPIC):
        raise UserError(
            f"{choice.model}: with a base URL the model must be written as openai:NAME, or as anthropic:NAME "
            "where the server speaks that protocol"
        )
    key = keys.find("KERNELWRIGHT_API_KEY")
    if key is None and not _is_here(base_url):
        raise UserError(f"{choice.place}: no key; set KERNELWRIGHT_API_KEY in the environment")
    speak = _messages if choice.provider == ANTHROPIC else _chat_completions
    return speak(choice, base_url, key or "none-needed", http_client)


def _messages(
    choice: ModelChoice, base_url: str, key: str, http_client: httpx2.AsyncClient
) -> sdk_models.Model:
    """Return a model that speaks Anthropic's Messages protocol."""
    # lazy: the SDK is an extra of its own
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    root = base_url.removesuffix("/v1")  # the SDK adds it
    client = AsyncAnthropic(base_url=root, api_key=key, max_retries=0, http_client=http_client)
    return AnthropicModel(choice.name, provider=AnthropicProvider(anthropic_client=client))


def _chat_completions(
    choice: ModelChoice, base_url: str, key: str, http_client: httpx2.AsyncClient
) -> sdk_models.Model:
    """Return a model that speaks OpenAI's chat-completions protocol."""
    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http_client)
    # Servers that know only the older ``max_tokens`` ignore the newer field, and then never stop.
    # A model that nobody knows may reason: effort is sent where the user named one.
    # A stream that ends without saying so was cut off.
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=False,
        openai_chat_streaming_requires_finish_reason=True,
        supports_thinking=True,
    )
    provider = OpenAICompatibleProvider("openai", openai_client=client, profile=profile)
    return OpenAIChatModel(choice.name, provider=provider)


@asynccontextmanager
async def connect(settings: ModelSettings, role: str, keys: Keys) -> AsyncIterator[sdk_models.Model]:
    """Yield the role's model with connections of its own, closed at the end, and the limit of bytes kept."""
    async with (
        _http_client(settings, role) as client,
        make_model(settings, role, keys=keys, http_client=client) as model,
    ):
        yield model


@cache
def _certificates() -> ssl.SSLContext:
    """Load them once a process: that takes longer than everything else about a connection."""
    return httpx2.create_ssl_context()


def _is_here(url: str) -> bool:
    """Say whether a server is on this machine itself."""
    return is_loopback(urlsplit(url).hostname or "")


def _http_client(settings: ModelSettings, role: str) -> httpx2.AsyncClient:
    base_url = settings.for_role(role).base_url
    return httpx2.AsyncClient(
        verify=_certificates(),
        timeout=httpx2.Timeout(settings.timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.timeout_s)),
        event_hooks={"response": [_ByteLimit(settings.max_reply_bytes)]},
        trust_env=not (base_url and _is_here(base_url)),  # no proxy on the way to this machine
    )


class _ByteLimit:
    """A hook that puts a limit on every response before its body is read."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    async def __call__(self, response: httpx2.Response) -> None:
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        response.stream = _Limited(stream, self._limit)


class _Limited(httpx2.AsyncByteStream):
    """The same bytes, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._stream:
            seen += len(chunk)
            if seen > self._limit:
                raise ReplyTooLong(self._limit)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
