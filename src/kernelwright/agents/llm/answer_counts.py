"""How a run's answers ended: the honest count that every run reports."""

from collections import Counter
from collections.abc import Mapping

from kernelwright.core.model_call import CallOutcome, answers_sentence


class Account:
    """Counts one outcome per question; a question may have cost several requests."""

    def __init__(self) -> None:
        self._counts: Counter[CallOutcome] = Counter()
        self._last: dict[str, CallOutcome] = {}

    def count(self, role: str, outcome: CallOutcome) -> None:
        """Count the answer to a role's new question."""
        self._counts[outcome] += 1
        self._last[role] = outcome

    def note(self, role: str, outcome: CallOutcome) -> None:
        """Replace the outcome of the role's last answer by what the role made of it."""
        last = self._last.pop(role, None)
        if last is not None:
            self._counts[last] -= 1
        self.count(role, outcome)

    @property
    def outcomes(self) -> Mapping[CallOutcome, int]:
        """Answers by outcome, most frequent first."""
        return {outcome: n for outcome, n in self._counts.most_common() if n}

    @property
    def total(self) -> int:
        """Questions asked."""
        return sum(self._counts.values())

    @property
    def usable(self) -> int:
        """Answers that a role could use."""
        return self._counts[CallOutcome.OK]

    @property
    def unusable(self) -> int:
        """Questions without an answer that a role could use."""
        return self.total - self.usable

    @property
    def every_call_failed(self) -> bool:
        """True when something was asked and the API itself failed every time."""
        return self.total > 0 and all(outcome.is_api_failure for outcome in self.outcomes)

    def by_name(self) -> dict[str, int]:
        """Return the outcomes under their names, as events hold them."""
        return {outcome.value: n for outcome, n in self.outcomes.items()}

    def sentence(self) -> str:
        """Return one sentence, e.g. ``12 of 40 answers were unusable: 7 no code, 5 invalid output``."""
        return answers_sentence(self.by_name())
