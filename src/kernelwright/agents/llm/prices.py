"""What models cost: the public list of the genai-prices package, or what the settings say."""

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.model_call import Price
from kernelwright.core.models import ModelChoice, ModelSettings

LISTED_UNDER = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google-cloud": "google",
    "bedrock": "aws",
    "xai": "x-ai",
}
"""Providers of pydantic-ai that the price list knows by another name."""


def with_prices(settings: ModelSettings) -> ModelSettings:
    """Return the settings with a price snapshot for every model whose price is known; keeps those it has."""
    found = [settings.price_of(choice) or find_price(choice) for choice in settings.choices()]
    return settings.model_copy(update={"prices": tuple(price for price in found if price is not None)})


def require_prices(settings: ModelSettings, budget: Budget) -> None:
    """Raise UserError when there is a budget in USD and a model whose price nobody knows."""
    if budget.usd is None:
        return
    for choice in settings.choices():
        if settings.price_of(choice) is None and find_price(choice) is None:
            raise UserError(
                f"the price of {choice.place} is unknown, so a budget in USD cannot be kept: give --price "
                f"{choice.model}=INPUT,OUTPUT (usd_per_million_input and _output in settings), or a budget "
                "in tokens"
            )


def find_price(choice: ModelChoice) -> Price | None:
    """Return today's price, None when it is unknown; the settings go before the list.

    The list's figures leave out discounts for cached and batched tokens, and surcharges for long contexts.
    """
    if choice.usd_per_million_input is not None or choice.usd_per_million_output is not None:
        return _given(choice)
    return _listed(choice)


def _given(choice: ModelChoice) -> Price:
    if choice.usd_per_million_input is None or choice.usd_per_million_output is None:
        raise UserError(f"give both usd_per_million_input and usd_per_million_output for {choice.place}")
    return Price(
        model=choice.place,
        usd_per_million_input=choice.usd_per_million_input,
        usd_per_million_output=choice.usd_per_million_output,
        source="given in the settings",
    )


def _listed(choice: ModelChoice) -> Price | None:
    try:
        import genai_prices  # lazy: only runs with a model need the list
    except ModuleNotFoundError:
        return None
    sample = 1_000  # tokens; small enough to stay below every long-context surcharge
    usage = genai_prices.Usage(input_tokens=sample, output_tokens=sample)
    listed_under = LISTED_UNDER.get(choice.provider, choice.provider)
    try:
        if choice.base_url:
            cost = genai_prices.calc_price(usage, choice.name, provider_api_url=choice.base_url)
        else:
            cost = genai_prices.calc_price(usage, choice.name, provider_id=listed_under)
    except LookupError:
        return None
    return Price(
        model=choice.place,
        usd_per_million_input=round(float(cost.input_price) * 1e6 / sample, 6),
        usd_per_million_output=round(float(cost.output_price) * 1e6 / sample, 6),
        source=f"genai-prices {genai_prices.__version__}",
    )
