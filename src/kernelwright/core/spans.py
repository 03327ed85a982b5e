"""OpenTelemetry spans of a run, where they are asked for; named by the conventions for generative AI.

A run is ``invoke_workflow``, a tool of a model ``execute_tool``; requests to models are pydantic-ai's spans.
The names of steps and evaluations are ours. Spans go to the exporter that the process has set up.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

SpanValue: TypeAlias = str | bool | int | float
Tell: TypeAlias = Callable[[Mapping[str, SpanValue]], object]
"""Adds attributes to a span."""


@contextmanager
def span(is_wanted: bool, name: str, attributes: Mapping[str, SpanValue]) -> Iterator[Tell]:
    """Open a span around what follows; nothing at all where it is not wanted.

    The end of a budget or an interruption is no error of the span.
    """
    if not is_wanted:
        yield lambda more: None
        return
    with _tracer().start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        yield lambda more: opened.set_attributes(dict(more))


def _tracer() -> Any:
    # lazy: optional, and there only with the libraries for models
    from opentelemetry import trace

    return trace.get_tracer("kernelwright")
