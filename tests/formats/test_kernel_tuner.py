"""Tuned spaces as T1 and T4: what is written has what the schemas ask for, and comes back the same."""

import ast
import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.samples import OPEN, REAL

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import closed, open_parameters
from kernelwright.formats.kernel_tuner import (
    LANGUAGES,
    NO_PROGRAM,
    OPEN_NAME,
    VERSION,
    PointTimes,
    TunedSpace,
    read_results,
    write_results,
    write_space,
)

VALUE = st.one_of(st.booleans(), st.integers(-9, 9), st.text(max_size=5), st.floats(-9, 9))
PARAMETERS = st.dictionaries(
    st.text(min_size=1, max_size=6),
    st.lists(VALUE, min_size=1, max_size=4).map(tuple),
    min_size=1,
    max_size=4,
)
SPACE = TunedSpace(
    "softmax",
    "cpp",
    {"TILE": (64, 128), "MODE": ("static", "dynamic")},
    (
        PointTimes({"TILE": 64, "MODE": "static"}, (1.0, 1.5, 1.25), None, 1.0),
        PointTimes({"TILE": 128}, (0.5, 0.75, 0.6), None, 0.5),
        PointTimes({"MODE": "dynamic"}, (), "k.cpp:3: error: no such thing"),
        PointTimes({"TILE": 128, "MODE": "dynamic"}, (), "the compiler ran past 2 s and was killed"),
        PointTimes({"TILE": 64, "MODE": "unknown"}, (), NO_PROGRAM),
    ),
)


def test_every_result_has_what_the_schema_requires() -> None:
    results: list[dict[str, Any]] = write_results(SPACE)["results"]
    assert all({"configuration", "times", "invalidity", "correctness"} <= set(r) for r in results)
    assert [r["invalidity"] for r in results] == [
        "correct", "correct", "compile", "timeout", "constraints",
    ]  # fmt: skip
    assert all(set(r["configuration"]) == {"TILE", "MODE"} for r in results)
    times = {m["name"]: (m["value"], m["unit"]) for m in results[1]["measurements"]}
    assert times["time"] == (0.6, "ms")


def test_a_space_names_every_parameter_with_its_values() -> None:
    found = write_space(SPACE)
    assert found["ConfigurationSpace"]["TuningParameters"][0] == {
        "Name": "TILE", "Type": "int", "Values": "[64, 128]"
    }  # fmt: skip
    assert {"Language", "KernelName", "KernelFile", "GlobalSize", "LocalSize"} <= set(
        found["KernelSpecification"]
    )


@pytest.mark.parametrize(("language", "name"), [("cuda", "CUDA"), ("cpp", "cpp"), ("triton", "triton")])
def test_a_language_that_t1_lacks_is_said_to_be_an_extension(language: str, name: str) -> None:
    found = write_space(replace(SPACE, language=language))
    assert found["KernelSpecification"]["Language"] == name
    assert found["KernelSpecification"]["KernelFile"] == OPEN_NAME
    assert ("Extensions" in found["General"]) == (language not in LANGUAGES)


@pytest.mark.parametrize("language", ["cuda", "cpp"])
def test_kernel_tuners_own_schemas_take_what_is_written(language: str) -> None:
    """Theirs are read as files: importing the package would load much."""
    jsonschema = pytest.importorskip("jsonschema")
    package = importlib.util.find_spec("kernel_tuner")
    if package is None or package.origin is None:
        pytest.skip("kernel_tuner is not installed: pip install '.[measured]'")
    schemas = Path(package.origin).parent / "schema"
    space = replace(SPACE, language=language)
    t1 = json.loads((schemas / "T1" / VERSION / "input-schema.json").read_text())
    t4 = json.loads((schemas / "T4" / VERSION / "results-schema.json").read_text())
    jsonschema.validate(write_results(space), t4)
    wrong = jsonschema.Draft7Validator(t1).iter_errors(write_space(space))
    places = [".".join(error.absolute_path) for error in wrong]
    assert places == ([] if language in LANGUAGES else ["KernelSpecification.Language"])


def test_a_real_tuning_comes_back_as_it_was_measured() -> None:
    tuned = REAL / "tuned"
    document = json.loads((tuned / "tuned.json").read_text(encoding="utf-8"))
    parameters = open_parameters(OPEN)
    points = tuple(
        PointTimes(point["values"], tuple(point["times_ms"]), point["why"], point["ratio"])
        for point in document["tried"]
    )
    space = TunedSpace(document["task"], "cpp", parameters, points)
    t1, t4 = (json.loads((tuned / f"tuned.{name}.json").read_text()) for name in ("t1", "t4"))
    assert (write_space(space), write_results(space)) == (t1, t4)
    assert read_results(t4) == points and len(points) == math.prod(map(len, parameters.values())) == 9
    assert t1["KernelSpecification"]["KernelFile"] == OPEN_NAME
    left_open = t1["ConfigurationSpace"]["TuningParameters"]
    named = {one["Name"]: tuple(ast.literal_eval(one["Values"])) for one in left_open}
    assert named == parameters and document["source"] == closed(OPEN, document["values"])


@given(PARAMETERS)
def test_parameters_come_back(parameters: dict[str, tuple[Any, ...]]) -> None:
    named = write_space(TunedSpace("t", "cpp", parameters, ()))["ConfigurationSpace"]["TuningParameters"]
    assert {p["Name"]: tuple(ast.literal_eval(p["Values"])) for p in named} == parameters


@given(
    st.lists(
        st.tuples(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=3), st.floats(0.01, 100)), max_size=4
    )
)
def test_points_come_back(timed: list[tuple[list[float], float]]) -> None:
    points = tuple(PointTimes({"TILE": 64, "MODE": "static"}, tuple(ms), None, r) for ms, r in timed)
    assert read_results(write_results(TunedSpace("t", "cpp", SPACE.parameters, points))) == points


def test_reasons_come_back_and_defaults_are_named() -> None:
    found = read_results(write_results(SPACE))
    assert [point.why for point in found] == [point.why for point in SPACE.points]
    assert found[1].values == {"TILE": 128, "MODE": "static"}


@pytest.mark.parametrize("document", [{}, {"results": 3}, {"results": [{}]}, {"results": ["x"]}])
def test_other_documents_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="no T4"):
        read_results(document)
