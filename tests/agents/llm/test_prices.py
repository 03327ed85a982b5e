"""What a run costs, by a snapshot that a resumed run keeps to."""

import pytest

from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.prices import find_price, require_prices, with_prices
from kernelwright.agents.llm.tape import MemoryTape, ReplayOnly
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import Price
from kernelwright.core.models import ModelSettings, RoleModel

LOCAL = "http://127.0.0.1:8000/v1"


def price_of(model: str, **settings: object) -> Price | None:
    return find_price(ModelSettings.model_validate({"model": model, **settings}).for_role("planner"))


@pytest.mark.parametrize("model", ["openai:gpt-4o", "openai-chat:gpt-4o", "anthropic:claude-sonnet-4-5"])
def test_the_public_list_knows_the_usual_models(model: str) -> None:
    price = price_of(model)
    assert price is not None
    assert price.model == model
    assert 0 < price.usd_per_million_input < price.usd_per_million_output
    assert price.source.startswith("genai-prices ")


def test_a_known_figure() -> None:
    price = price_of("openai:gpt-4o")
    assert price is not None
    assert (price.usd_per_million_input, price.usd_per_million_output) == (2.5, 10.0)
    assert price.cost(2_000_000, 100_000) == 6.0


@pytest.mark.parametrize("model", ["openai:no-such-model", "nonsense:gpt-4o"])
def test_an_unknown_price_is_none(model: str) -> None:
    assert price_of(model) is None


def test_a_server_of_ones_own_does_not_cost_what_openai_costs() -> None:
    assert price_of("openai:gpt-4o", base_url=LOCAL) is None
    listed = price_of("openai:anthropic/claude-sonnet-4", base_url="https://openrouter.ai/api/v1")
    assert listed is not None and listed.model.endswith(" at https://openrouter.ai/api/v1")


def test_a_given_price_goes_before_the_list() -> None:
    price = price_of("openai:gpt-4o", usd_per_million_input=0.0, usd_per_million_output=1.0)
    assert price == Price(
        model="openai:gpt-4o",
        usd_per_million_input=0.0,
        usd_per_million_output=1.0,
        source="given in the settings",
    )


def test_half_a_price_is_refused() -> None:
    with pytest.raises(UserError, match="give both"):
        price_of("openai:gpt-4o", usd_per_million_input=1.0)


def test_the_snapshot_holds_every_model_once_and_stays() -> None:
    old = Price(model="openai:gpt-4o", usd_per_million_input=99, usd_per_million_output=99, source="then")
    settings = ModelSettings(
        model="openai:gpt-4o",
        prices=(old,),
        roles={
            "planner": RoleModel(model="anthropic:claude-sonnet-4-5"),
            "coder": RoleModel(model="anthropic:claude-sonnet-4-5", temperature=1.0),
            "debugger": RoleModel(model="openai:unknown"),
        },
    )
    taken = with_prices(settings)
    assert [price.model for price in taken.prices] == ["openai:gpt-4o", "anthropic:claude-sonnet-4-5"]
    assert taken.price_of(taken.for_role("analyst")) == old
    assert taken.price_of(taken.for_role("debugger")) is None
    assert with_prices(taken) == taken


def test_a_budget_in_usd_needs_every_price() -> None:
    settings = ModelSettings(
        model="openai:gpt-4o", roles={"coder": RoleModel(model="openai:mystery", base_url=LOCAL)}
    )
    require_prices(settings, Budget(tokens=1))
    with pytest.raises(UserError, match=r"openai:mystery at .* is unknown.*usd_per_million_input"):
        require_prices(settings, Budget(usd=1.0))
    coder = RoleModel(
        model="openai:mystery", base_url=LOCAL, usd_per_million_input=0.0, usd_per_million_output=0.0
    )
    require_prices(settings.model_copy(update={"roles": {"coder": coder}}), Budget(usd=1.0))


def test_a_client_refuses_a_budget_that_it_cannot_keep() -> None:
    settings = ModelSettings(model="openai:mystery", base_url=LOCAL)
    meter = Meter(Budget(usd=1.0), lambda: 0.0)
    with pytest.raises(UserError, match="cannot be kept"):
        ModelClient(settings, meter, MemoryTape())
    ModelClient(settings, meter, ReplayOnly(MemoryTape()))
