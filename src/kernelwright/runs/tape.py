"""A run's model calls, kept in the store: a resumed run gets the recorded answers instead of asking again."""

from kernelwright.core.model_call import CallOutcome, ModelCall, Question
from kernelwright.store.base import Store


class StoreTape:
    """The tape of one run."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._calls = {call.key: call for call in store.iter_model_calls(run_id)}

    def find(self, key: str, question: Question | None = None) -> ModelCall | None:
        """Return the recorded call with that key; None when it has to be made."""
        return self._calls.get(key)

    def add(self, call: ModelCall) -> None:
        """Record a call; durable when it returns."""
        self._store.add_model_call(self._run_id, call)
        self._calls[call.key] = call

    def judge(self, key: str, outcome: CallOutcome, detail: str) -> None:
        """Note why a call's answer could not be used."""
        if (known := self._calls.get(key)) and (call := known.judged_as(outcome, detail)) != known:
            self._store.replace_model_call(self._run_id, call)
            self._calls[key] = call
