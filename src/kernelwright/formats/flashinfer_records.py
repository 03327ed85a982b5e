"""The records of FlashInfer-Bench, as far as they are read and written here."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Theirs(BaseModel):
    """A record of theirs; what newer versions add is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")


class AxisRecord(_Theirs):
    """A dimension: a constant, or one that a workload binds."""

    type: Literal["const", "var"]
    value: int | None = None
    description: str | None = None

    @model_validator(mode="after")
    def _constants_have_a_value(self) -> "AxisRecord":
        if self.type == "const" and self.value is None:
            raise ValueError("a constant axis has a value")
        return self


class TensorRecord(_Theirs):
    """An input or output; a scalar has no shape."""

    shape: tuple[str, ...] | None
    dtype: str
    description: str | None = None


class DefinitionRecord(_Theirs):
    """What is to be computed."""

    name: str = Field(min_length=1)
    op_type: str
    axes: dict[str, AxisRecord]
    inputs: dict[str, TensorRecord]
    outputs: dict[str, TensorRecord]
    reference: str
    """Python source with a function ``run``."""
    tags: tuple[str, ...] = ()
    description: str | None = None
    constraints: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _axes_are_there(self) -> "DefinitionRecord":
        for name, tensor in {**self.inputs, **self.outputs}.items():
            unknown = [axis for axis in tensor.shape or () if axis not in self.axes]
            if unknown:
                raise ValueError(f"{name} has the axis {unknown[0]}, which the definition does not name")
        return self


class RandomInputRecord(_Theirs):
    """Drawn at random."""

    type: Literal["random"] = "random"


class ScalarInputRecord(_Theirs):
    """A number."""

    type: Literal["scalar"] = "scalar"
    value: bool | int | float


class StoredInputRecord(_Theirs):
    """A tensor in a safetensors file."""

    type: Literal["safetensors"] = "safetensors"
    path: str
    tensor_key: str


InputRecord: TypeAlias = Annotated[
    RandomInputRecord | ScalarInputRecord | StoredInputRecord, Field(discriminator="type")
]


class WorkloadRecord(_Theirs):
    """Values of the variable axes, and how inputs are had."""

    axes: dict[str, int]
    inputs: dict[str, InputRecord]
    uuid: str


class SourceRecord(_Theirs):
    """A file of a solution."""

    path: str
    content: str


class BuildRecord(_Theirs):
    """How a solution is built and called."""

    language: str
    target_hardware: tuple[str, ...]
    entry_point: str
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool = True
    binding: str | None = None


class SolutionRecord(_Theirs):
    """A kernel."""

    name: str
    definition: str
    author: str
    spec: BuildRecord
    sources: tuple[SourceRecord, ...]
    description: str | None = None


class CorrectnessRecord(_Theirs):
    """Distances from the reference."""

    max_relative_error: float = 0.0
    max_absolute_error: float = 0.0
    extra: dict[str, Any] | None = None


class PerformanceRecord(_Theirs):
    """Latencies."""

    latency_ms: float = 0.0
    reference_latency_ms: float = 0.0
    speedup_factor: float = 0.0


class EnvironmentRecord(_Theirs):
    """Where it was measured."""

    hardware: str
    libs: dict[str, str] = Field(default_factory=dict)


class JudgementRecord(_Theirs):
    """How a solution did on a workload."""

    status: str
    environment: EnvironmentRecord
    timestamp: str
    log: str = ""
    correctness: CorrectnessRecord | None = None
    performance: PerformanceRecord | None = None


class TraceRecord(_Theirs):
    """A workload, and how a solution did on it where there is one."""

    definition: str
    workload: WorkloadRecord
    solution: str | None = None
    evaluation: JudgementRecord | None = None

    @model_validator(mode="after")
    def _judged_is_a_solution(self) -> "TraceRecord":
        if (self.solution is None) != (self.evaluation is None):
            raise ValueError("solution and evaluation go together")
        return self
