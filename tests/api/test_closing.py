"""What a model leaves open is closed by real timings, and hostile points are only points."""

import pytest
from tests.agents.llm.conftest import KERNEL, TASK

from kernelwright.api.closing import closer
from kernelwright.core.candidate import Candidate
from kernelwright.core.machine import Machine
from kernelwright.core.open_parameters import closed, open_parameters
from kernelwright.core.target import CPU_CPP

FLAGS = '"-ffp-contract=fast")'
OPEN_FLAGS = """"-ffp-contract=fast", f"-DSTEP={TUNE['STEP'][0]}", f"-DSPIN={TUNE['SPIN'][0]}")"""
LOOP = """    for (volatile int spin = 0; spin < 10 * SPIN; ++spin) {}
    static_assert(STEP >= 0, "no such step");
    float sum = STEP ? 0.0f : 1e6f;
"""
OPEN = (
    KERNEL.replace("CPP_SOURCE =", 'TUNE = {"STEP": [1, 0, -1], "SPIN": [40000, 0]}\n\nCPP_SOURCE =', 1)
    .replace(FLAGS, OPEN_FLAGS)
    .replace("    float sum = 0.0f;\n", LOOP)
)
"""The worked example with values that do not build (STEP -1), are wrong (STEP 0), or are slow."""


@pytest.mark.slow
def test_the_fastest_right_point_is_chosen_and_faults_are_only_points() -> None:
    candidate = Candidate(source=OPEN)
    closing = closer(CPU_CPP, Machine)(TASK, candidate, 30.0)
    assert not closing.problem and closing.values == {"STEP": 1, "SPIN": 0}
    assert closing.n_failed == 4 and closing.n_points == closing.n_possible == 6
    assert [response.name for response in closing.responses] == ["SPIN"]
    assert closing.seconds > 0 and closing.written == candidate.id
    assert open_parameters(closed(OPEN, closing.values))["SPIN"] == (0,)


@pytest.mark.slow
def test_defaults_that_do_not_run_stand_for_the_referee_to_judge() -> None:
    source = OPEN.replace('"STEP": [1, 0, -1]', '"STEP": [-1, 1]')
    closing = closer(CPU_CPP, Machine)(TASK, Candidate(source=source), 10.0)
    assert "does not run with its defaults" in closing.problem and closing.values["STEP"] == -1
    assert closing.n_points == 1 and closing.seconds > 0
