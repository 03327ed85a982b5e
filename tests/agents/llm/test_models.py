"""From a name to a model, or to one clear line."""

import sys

import pytest

from kernelwright.agents.llm.keys import BLACKED_OUT, Keys
from kernelwright.agents.llm.models import known_providers, make_model
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings, RoleModel

KEY = "sk-abcdefgh12345678"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KERNELWRIGHT_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def line_for(model: str, **settings: object) -> str:
    with pytest.raises(UserError) as raised:
        make_model(ModelSettings.model_validate({"model": model, **settings}), "planner")
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("openrouter:a/b:free", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_named(model: str, variable: str) -> None:
    assert line_for(model) == f"{model}: no key; set {variable} in the environment"


def test_an_unknown_provider_lists_the_known_ones() -> None:
    line = line_for("nonsense:model")
    assert "unknown provider 'nonsense'" in line
    assert all(name in line for name in ("openai", "anthropic", "ollama", "mistral"))
    assert {"openai", "anthropic", "google", "openrouter", "vllm"} <= set(known_providers())


@pytest.mark.parametrize("model", ["gpt-5", "openai:", ":gpt-5", ""])
def test_a_model_without_provider_is_refused(model: str) -> None:
    with pytest.raises(UserError, match="provider:name"):
        ModelSettings(model=model)


@pytest.mark.parametrize(
    ("model", "key", "kind"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", "OpenAIResponsesModel"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY", "OpenAIChatModel"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "AnthropicModel"),
        ("openrouter:a/b:free", "OPENROUTER_API_KEY", "OpenRouterModel"),
    ],
)
def test_with_its_key_a_model_is_made_and_does_not_show_it(
    model: str, key: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(key, KEY)
    made = make_model(ModelSettings(model=model), "planner")
    assert type(made).__name__ == kind
    assert made.model_name == model.partition(":")[2]
    assert KEY not in repr(made) + repr(made.provider)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "http://localhost:8000/v1", "http://[::1]:8000/v1"]
)
def test_a_server_on_this_machine_needs_no_key(url: str) -> None:
    made = make_model(ModelSettings(model="openai:smol", base_url=url), "planner")
    assert made.base_url == f"{url}/"


def test_any_other_server_needs_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://models.example.org/v1"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert line_for("openai:m", base_url=url) == (
        f"openai:m at {url}: no key; set KERNELWRIGHT_API_KEY in the environment"
    )
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", KEY)
    assert make_model(ModelSettings(model="openai:m", base_url=url), "planner").model_name == "m"


def test_a_base_url_speaks_one_of_two_protocols() -> None:
    said = line_for("mistral:m", base_url="http://127.0.0.1:8000/v1")
    assert "openai:NAME" in said and "anthropic:NAME" in said


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"])
def test_a_server_may_speak_anthropics_protocol_and_never_gets_its_key(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made = make_model(ModelSettings(model="anthropic:m", base_url=url), "planner")
    assert type(made).__name__ == "AnthropicModel"
    assert str(made.base_url).rstrip("/") == "http://127.0.0.1:8000"
    assert made.provider is not None and made.provider.client.api_key == "none-needed"


def test_a_missing_sdk_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pydantic_ai.models.anthropic")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    said = line_for("anthropic:m", base_url="http://127.0.0.1:8000")
    assert said == "anthropic:m: its SDK is missing: pip install 'pydantic-ai-slim[anthropic]'"


@pytest.mark.parametrize(
    "url",
    ["https://user:secret-word@example.org/v1", "https://example.org/v1?key=secret-word", "ftp://a", "a"],
)
def test_a_base_url_holds_no_credentials(url: str) -> None:
    with pytest.raises(UserError) as raised:
        ModelSettings(model="openai:m", base_url=url)
    assert "secret-word" not in str(raised.value)


def test_roles_inherit_what_they_do_not_name() -> None:
    settings = ModelSettings(
        model="openai:big",
        base_url="http://127.0.0.1:1/v1",
        temperature=0.2,
        usd_per_million_input=1.0,
        usd_per_million_output=2.0,
        roles={
            "planner": RoleModel(temperature=0.0),
            "coder": RoleModel(model="openai:small"),
            "debugger": RoleModel(model="anthropic:other"),
        },
    )
    planner, coder, debugger = (settings.for_role(role) for role in ("planner", "coder", "debugger"))
    assert (planner.model, planner.temperature, planner.usd_per_million_input) == ("openai:big", 0.0, 1.0)
    assert (coder.place, coder.temperature) == ("openai:small at http://127.0.0.1:1/v1", 0.2)
    assert coder.usd_per_million_input is None, "another model, another price"
    assert debugger.base_url is None, "another provider does not live at that address"
    assert [choice.name for choice in settings.choices()] == ["big", "small", "other"]
    assert settings.for_role("analyst").model == "openai:big"


def test_a_small_context_is_shared_by_prompt_and_answer() -> None:
    settings = ModelSettings(model="openai:m", max_output_tokens=1000, context_tokens=4096)
    assert settings.prompt_tokens() == 3096
    assert ModelSettings(model="openai:m").prompt_tokens() is None
    talker = settings.model_copy(update={"roles": {"coder": RoleModel(max_output_tokens=4096)}})
    with pytest.raises(UserError, match="no room for a prompt"):
        talker.prompt_tokens()


def test_settings_survive_the_store() -> None:
    settings = ModelSettings(model="openai:m", roles={"planner": RoleModel(temperature=0.0)})
    assert ModelSettings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "DB_PASSWORD"]
)
def test_keys_are_blacked_out_in_every_spelling(name: str) -> None:
    key = 'ab"c/d+e%f\\g123'
    keys = Keys({name: key})
    assert keys.scrub(f"it is {key}!") == f"it is {BLACKED_OUT}!"
    assert keys.scrub('"ab\\"c/d+e%f\\\\g123"') == f'"{BLACKED_OUT}"'
    assert keys.scrub("?k=ab%22c%2Fd%2Be%25f%5Cg123") == f"?k={BLACKED_OUT}"
    assert key not in repr(keys)


def test_ordinary_words_are_left_alone() -> None:
    keys = Keys({"OPENAI_API_KEY": "none", "MAX_TOKENS": "100000000", "HOME": "/home/someone"})
    assert keys.scrub("none of 100000000 in /home/someone") == "none of 100000000 in /home/someone"
