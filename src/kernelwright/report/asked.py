"""What a run asked of language models: how the answers ended, and what they cost by which prices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.core.budget import Spent
from kernelwright.core.model_call import CallOutcome, Price, answers_sentence
from kernelwright.core.models import ModelSettings
from kernelwright.report.story import Story
from kernelwright.report.verdict import Verdict

BY_PRICES = "by the prices of when the run began"


@dataclass(frozen=True)
class ModelRow:
    """One model of a run."""

    model: str
    roles: str
    price: Price | None
    """Stored with the run; None where it was not known."""


@dataclass(frozen=True)
class AskedModels:
    """What an ended run asked of its models."""

    rows: tuple[ModelRow, ...]
    answers: Mapping[str, int]
    """By outcome."""
    spent: Spent

    @property
    def sentence(self) -> str:
        """How many answers no role could use, and why."""
        said = answers_sentence(self.answers)
        return f"{said[:1].upper()}{said[1:]}."

    @property
    def usable(self) -> str:
        """Answers that a role could use, of all."""
        return f"{self.answers.get(CallOutcome.OK, 0)} of {sum(self.answers.values())}"

    @property
    def dollars(self) -> str | None:
        """US dollars, None where no model has a price."""
        return usd(self.spent.usd) if any(row.price for row in self.rows) else None

    @property
    def cost(self) -> str:
        """Requests, tokens and dollars, and what the dollars leave out: a sentence."""
        n = self.spent.model_calls
        took = f"{n} {'request' if n == 1 else 'requests'} to models took {self.spent.tokens:,} tokens"
        if self.dollars is None:
            return f"{took}; no price of theirs is known."
        unknown = ", ".join(row.model for row in self.rows if row.price is None)
        without = f", without {unknown}, whose price is not known" if unknown else ""
        return f"{took} and {self.dollars} {BY_PRICES}{without}."


def model_rows(models: ModelSettings) -> tuple[ModelRow, ...]:
    """Return every model with the roles that ask it and the price that is stored with the run."""
    roles: dict[str, list[str]] = {}
    for role in ("", *models.roles):
        rest = "every other" if models.roles else "every"
        roles.setdefault(models.for_role(role).place, []).append(role or rest)
    return tuple(
        ModelRow(choice.place, ", ".join(roles[choice.place]), models.price_of(choice))
        for choice in models.choices()
    )


def asked_of(models: ModelSettings | None, story: Story) -> AskedModels | None:
    """Return what an ended run asked of models; None where it asked nothing or has not ended."""
    if models is None or story.finished is None or not story.finished.spent.model_calls:
        return None
    return AskedModels(model_rows(models), story.finished.answers, story.finished.spent)


def with_models(verdict: Verdict, models: ModelSettings | None, story: Story) -> Verdict:
    """Return the verdict on a run with what it asked of models, where it asked anything."""
    asked = asked_of(models, story)
    return verdict if asked is None else replace(verdict, lines=(*verdict.lines, asked.sentence, asked.cost))


def usd(amount: float) -> str:
    """Spell US dollars: cents from one dollar on, three significant figures below."""
    return f"{amount:.2f} USD" if amount >= 1 or amount == 0 else f"{amount:.3g} USD"
