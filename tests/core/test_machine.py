"""A machine as a value: what it says of itself, and what older records say of one."""

import pytest

from kernelwright.core.evidence import METRICS
from kernelwright.core.machine import UNKNOWN_MACHINE, Accelerator, Cache, Machine, machine_of_environment
from kernelwright.core.run import RunSpec
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.testing.fake_run import PEAKS

MACHINE = Machine(
    processor="Example CPU",
    cores=8,
    vector_bytes=32,
    caches=(
        Cache(level=1, instance_bytes=32 << 10, shared_by=1, instances=8),
        Cache(level=2, instance_bytes=1 << 20, shared_by=2, instances=4),
    ),
    peaks=PEAKS,
    has_counters=False,
    compiler="g++ 12",
    sandbox="namespaces",
)
GPU = Accelerator(
    kind="cuda", name="h200-sxm", architecture="sm_90", units=132, bandwidth=4.8e12, source="published"
)


def test_facts_are_named_as_the_vocabulary_has_them() -> None:
    for machine in (MACHINE, UNKNOWN_MACHINE, MACHINE.model_copy(update={"accelerator": GPU})):
        assert set(machine.facts()) <= set(METRICS)
    assert MACHINE.facts()["machine.n_threads"] == 8
    assert MACHINE.facts()["machine.bandwidth_gbps"] == PEAKS.bandwidth_gbps


def test_the_facts_of_a_gpu_take_the_place_of_the_processor_s() -> None:
    facts = MACHINE.model_copy(update={"accelerator": GPU}).facts()
    assert facts["machine.bandwidth_gbps"] == 4800 and "machine.n_threads" not in facts
    assert Machine(cores=8, accelerator=Accelerator(kind="hip")).facts() == {}


def test_the_flat_form_has_caches_of_all_cores_together_and_facts_with_the_peaks() -> None:
    shown = MACHINE.environment()
    assert (shown["l1_bytes"], shown["l2_bytes"], shown["l3_bytes"]) == (256 << 10, 4 << 20, None)
    assert shown["machine.fma_gflops"] == PEAKS.fma_gflops and shown["sandbox"] == "namespaces"
    shown = MACHINE.model_copy(update={"accelerator": GPU}).environment()
    assert (shown["gpu"], shown["gpu_peaks"]) == ("h200-sxm", "published")
    assert "machine.fma_gflops" not in shown


def test_a_machine_comes_back_from_json_as_it_was() -> None:
    machine = MACHINE.model_copy(update={"accelerator": GPU, "is_elsewhere": True})
    assert Machine.model_validate_json(machine.model_dump_json()) == machine
    assert hash(machine) != hash(MACHINE)


def test_what_is_not_known_is_taken_from_another_but_never_where_it_judges() -> None:
    known = Machine(cores=2).completed(MACHINE.model_copy(update={"accelerator": GPU, "is_elsewhere": True}))
    assert known == MACHINE.model_copy(update={"cores": 2})


def test_the_flat_form_of_an_older_record_gives_its_machine() -> None:
    found = machine_of_environment(MACHINE.environment())
    same = ("processor", "cores", "vector_bytes", "compiler", "sandbox", "has_counters")
    assert all(getattr(found, name) == getattr(MACHINE, name) for name in same)
    assert found.caches == () and found.peaks is None


@pytest.mark.parametrize("value", ["many", True, 2.5])
def test_a_value_that_makes_no_sense_is_unknown(value: object) -> None:
    assert machine_of_environment({"cores": value}).cores is None  # type: ignore[dict-item]


def test_the_spec_of_an_older_store_is_read_with_the_machine_that_its_environment_tells_of() -> None:
    task = Task(name="t", source="s")
    spec = RunSpec(task=task, recipe="r", environment={"cores": 2, "machine.n_threads": 4})
    assert spec.machine.cores == 4
    older = spec.model_dump(mode="json", exclude={"machine"})
    older |= {"target": {"device": "cuda", "language": "triton"}, "environment": {"gpu": "h200-sxm"}}
    read = RunSpec.model_validate(older)
    assert read.target == TargetName(device="cuda", language="triton")
    assert read.machine.accelerator == Accelerator(kind="cuda", name="h200-sxm")
    kept = spec.model_copy(update={"machine": MACHINE})
    assert RunSpec.model_validate_json(kept.model_dump_json()) == kept
