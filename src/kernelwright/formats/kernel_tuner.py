"""Tuned spaces in the formats of auto-tuners: T1 (what is open) and T4 (what was measured), and T4 in.

Schemas: the T1 and T4 schemas of the auto-tuning community, 1.0.0, as Kernel Tuner and its benchmark hub use
them. T1 knows three languages and wants sizes of a grid. A kernel in another language names it all the same,
and ``General.Extensions`` says so; both sizes are 1, because a kernel of ours launches itself. Points that
are no program are results of T4, invalid by ``constraints``: no condition over parameters says which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.plan import ParamValue

VERSION = "1.0.0"
OBJECTIVE = "time"
OPEN_NAME = "open.py"
"""Of the file with what was open: the kernel as it was given, or the task whose programs were tuned."""
LANGUAGES = {name.lower(): name for name in ("CUDA", "OpenCL", "Vulkan")}
"""Language -> its name in T1, which has no others."""
NO_PROGRAM = "no program is generated for this point"
_TYPES: dict[type, str] = {bool: "bool", int: "int", float: "float"}
_INVALIDITY = (
    ("constraints", (NO_PROGRAM,)), ("timeout", ("ran past", "too late")),
    ("compile", ("error:", "compiler")), ("correctness", ("not close", "do not match", "mismatch")),
)  # fmt: skip
"""Why a point failed, in their words -> what our reason says."""


@dataclass(frozen=True)
class PointTimes:
    """One point of a tuned space."""

    values: Mapping[str, ParamValue]
    """Parameters that are not named have their default."""
    times_ms: tuple[float, ...]
    why: str | None
    """Why it could not be timed; None: it could."""
    ratio: float | None = None
    """Its time over the default's."""


@dataclass(frozen=True)
class TunedSpace:
    """What was open, and what was measured of it."""

    name: str
    language: str
    parameters: Mapping[str, tuple[ParamValue, ...]]
    """The default first."""
    points: tuple[PointTimes, ...]


def write_space(space: TunedSpace) -> dict[str, Any]:
    """Return the space as T1."""
    general: dict[str, Any] = {"FormatVersion": 1, "TimeUnit": "Milliseconds", "OutputFormat": "JSON"}
    if space.language not in LANGUAGES:
        names = ", ".join(LANGUAGES.values())
        general["Extensions"] = [f"Language: {space.language}, where T1 has {names}"]
    return {
        "General": general,
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": name, "Type": _type_of(values), "Values": repr(list(values))}
                for name, values in space.parameters.items()
            ],
            "Conditions": [],
        },
        "KernelSpecification": {
            "Language": LANGUAGES.get(space.language, space.language),
            "KernelName": space.name,
            "KernelFile": OPEN_NAME,
            "GlobalSize": {"X": "1"},
            "LocalSize": {"X": "1"},
        },
    }


def write_results(space: TunedSpace) -> dict[str, Any]:
    """Return the measurements as T4; every parameter is named in every configuration."""
    defaults = {name: values[0] for name, values in space.parameters.items()}
    return {"schema_version": VERSION, "results": [_result(point, defaults) for point in space.points]}


def read_results(document: Mapping[str, Any]) -> tuple[PointTimes, ...]:
    """Return the points of a T4 document.

    Raises:
        UserError: it is no such document.
    """
    try:
        return tuple(_point(result) for result in document["results"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"no T4 results: {type(error).__name__}: {error}") from error


def _result(point: PointTimes, defaults: Mapping[str, ParamValue]) -> dict[str, Any]:
    invalidity = _invalidity(point)
    measurements: list[dict[str, Any]] = []
    if point.times_ms:
        measurements.append({"name": OBJECTIVE, "value": median(point.times_ms), "unit": "ms"})
    if point.ratio is not None:
        measurements.append({"name": "ratio", "value": point.ratio, "unit": ""})
    if point.why is not None:
        measurements.append({"name": "reason", "value": point.why, "unit": ""})
    return {
        "configuration": {**defaults, **point.values},
        "times": {"runtimes": list(point.times_ms)},
        "invalidity": invalidity,
        "correctness": 0 if invalidity == "correctness" else 1,
        "measurements": measurements,
        "objectives": [OBJECTIVE],
    }


def _point(result: Mapping[str, Any]) -> PointTimes:
    measured = {m["name"]: m["value"] for m in result.get("measurements", ())}
    is_sound = result["invalidity"] == "correct"
    why = None if is_sound else str(measured.get("reason", result["invalidity"]))
    times = tuple(float(ms) for ms in result["times"].get("runtimes", ()))
    if is_sound and not times and isinstance(measured.get(OBJECTIVE), int | float):
        times = (float(measured[OBJECTIVE]),)
    return PointTimes(dict(result["configuration"]), times, why, measured.get("ratio"))


def _invalidity(point: PointTimes) -> str:
    if point.why is None:
        return "correct"
    words = point.why.lower()
    return next((name for name, signs in _INVALIDITY if any(s in words for s in signs)), "runtime")


def _type_of(values: tuple[ParamValue, ...]) -> str:
    kinds = {type(value) for value in values}
    return _TYPES.get(kinds.pop(), "string") if len(kinds) == 1 else "string"
