"""What the tools take: source text, and options that are fields of the requests."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import Field, WithJsonSchema

from kernelwright.core.errors import UserError
from kernelwright.core.places import AsText, OfSuite, TaskPlace, parse_place
from kernelwright.core.request import (
    CheckRequest,
    EvaluateRequest,
    Request,
    RunRequest,
    SpaceRequest,
    TuneRequest,
)
from kernelwright.core.source import MAX_SOURCE_BYTES


class Accepted(NamedTuple):
    """The fields of a request that a tool lets its caller choose.

    Files, stores, other evaluators, models and the sandbox are the server's owner's to choose.
    """

    request: type[Request]
    names: tuple[str, ...]

    def fields(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the options; raises UserError for one that is none."""
        given = dict(options or {})
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise UserError(f"options: there is no {unknown[0]!r}; this tool takes {', '.join(self.names)}")
        return given

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the options, without references."""
        whole = self.request.model_json_schema()
        definitions = whole.get("$defs", {})
        chosen = {name: _inlined(whole["properties"][name], definitions) for name in self.names}
        return {"type": "object", "properties": chosen, "additionalProperties": False}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace references to definitions by what is defined."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**named, **own}, definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items()}


_OF_TASK = ("workloads", "mode", "tolerance")
CHECK = Accepted(CheckRequest, ("workloads", "mode", "full_size", "max_ms", "max_mb"))
EVALUATE = Accepted(EvaluateRequest, (*_OF_TASK, "library_calls", "baselines", "final", "device"))
LOWER = Accepted(RunRequest, ("target", *_OF_TASK))
OPTIMIZE = Accepted(
    RunRequest,
    ("budget", "recipe", "team", "target", "seed", *_OF_TASK, "library_calls", "baselines", "cold"),
)

SPACE = Accepted(SpaceRequest, ("target", "workloads", "mode", "sample", "seed"))
TUNE = Accepted(TuneRequest, ("seconds", "target", "seed", *_OF_TASK, "library_calls"))
MAX_SAMPLE = 200

TaskText: TypeAlias = Annotated[
    str,
    Field(
        description="Source text of a Python file in KernelBench's format: class Model(nn.Module), "
        "get_inputs(), get_init_inputs(). Or suite:NAME for a task of the built-in suite."
    ),
]
KernelText: TypeAlias = Annotated[
    str,
    Field(description="Source text of a Python file that defines class ModelNew, a drop-in for Model."),
]
CheckOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(CHECK.schema())]
EvaluateOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(EVALUATE.schema())]
LowerOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(LOWER.schema())]
SpaceOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(SPACE.schema())]
TuneOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(TUNE.schema())]
OptimizeOptions: TypeAlias = Annotated[dict[str, Any] | None, WithJsonSchema(OPTIMIZE.schema())]


def place_of(task: str, name: str = "task") -> TaskPlace:
    """Return the place of a task given as text; raises UserError for a path: files are not read."""
    if len(task) > MAX_SOURCE_BYTES:
        raise UserError(f"task: it has {len(task)} characters; at most {MAX_SOURCE_BYTES} are read")
    if "\n" in task.strip():
        return AsText(name=name, source=task)
    place = parse_place(task.strip()) if task.strip() else AsText(source=task)
    if isinstance(place, OfSuite) and place.name:
        return place
    raise UserError(
        f"task: {task[:60]!r} is no source text; read the file and pass its content, or pass suite:NAME"
    )


def kernel_of(kernel: str, name: str = "kernel") -> AsText:
    """Return the place of a kernel given as text; raises UserError for a path: files are not read."""
    if "\n" not in kernel.strip():
        raise UserError(
            f"kernel: {kernel[:60]!r} is no source text; read the file and pass its content, which defines "
            "class ModelNew"
        )
    return AsText(name=name, source=kernel)
