"""What an evaluation has found so far: the worst errors, each note once, and phases without waits."""

import pytest

from kernelwright.core.evaluation import NumericalError, Stage
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.referee.session.dossier import WAITING, Dossier


def error(value: float, output: str = "out0") -> NumericalError:
    return NumericalError(
        workload="default", family="normal", output=output, error=value, reference_error=0.1, allowed=1.0
    )


def test_of_the_errors_of_one_output_the_largest_stays() -> None:
    dossier = Dossier()
    dossier.keep_worst([error(0.5), error(0.1, "out1")])
    dossier.keep_worst([error(0.7), error(0.6)])
    assert [(found.output, found.error) for found in dossier.errors] == [("out0", 0.7), ("out1", 0.1)]


def test_a_note_that_is_made_twice_is_kept_once() -> None:
    dossier = Dossier()
    for text in ("b", "a", "b"):
        dossier.note(text)
    assert dossier.notes == ("b", "a")


def test_a_stage_that_fails_is_the_last_one_and_has_its_time() -> None:
    dossier = Dossier()
    with pytest.raises(ValueError, match="planted"), dossier.phase(Stage.LOAD):
        raise ValueError("planted")
    assert dossier.stage is Stage.LOAD and dossier.phases_s[Stage.LOAD.value] > 0


@pytest.mark.parametrize(("waited_s", "has_waited"), [(0.001, False), (30.0, True)])
def test_a_wait_for_the_device_is_a_phase_of_its_own(
    monkeypatch: pytest.MonkeyPatch, waited_s: float, has_waited: bool
) -> None:
    def wait(lease: DeviceLease, before_wait: object) -> None:
        lease.waited_s = waited_s

    monkeypatch.setattr(DeviceLease, "take", wait)
    dossier = Dossier()
    with dossier.phase(Stage.TIME):
        told = [dossier.take(DeviceLease([])) for _ in range(2)]
    assert told == [has_waited] * 2
    assert dossier.phases_s.get(WAITING, 0.0) == (2 * waited_s if has_waited else 0.0)
    assert (dossier.phases_s[Stage.TIME.value] < 0) == has_waited, "the wait is subtracted from the phase"
