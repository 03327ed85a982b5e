"""Nsight Compute's names become ours in one place."""

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.metrics import BANK_CONFLICTS, NSIGHT_COMPUTE, SHARED_PASSES, ncu_facts


def test_every_target_of_the_map_is_a_metric() -> None:
    assert {name for name, _ in NSIGHT_COMPUTE.values()} <= set(METRICS)


def test_units_are_converted_and_shares_end_at_one() -> None:
    facts = ncu_facts(
        {
            "gpu__time_duration.sum": 12_500.0,
            "dram__throughput.avg.pct_of_peak_sustained_elapsed": 100.7,
            "sm__warps_active.avg.pct_of_peak_sustained_active": 43.0,
            "smsp__thread_inst_executed_per_inst_executed.ratio": 16.0,
            "launch__waves_per_multiprocessor": 3.5,
        }
    )
    assert facts == {
        "gpu.kernel_us": 12.5,
        "gpu.dram_fraction": 1.0,
        "gpu.occupancy": 0.43,
        "gpu.active_lanes": 0.5,
        "gpu.waves": 3.5,
    }


def test_what_was_not_measured_stays_unknown() -> None:
    assert ncu_facts({"lts__t_sector_hit_rate.pct": None, "some__metric.sum": 3.0}) == {}
    assert ncu_facts({BANK_CONFLICTS: 5.0, SHARED_PASSES: 0.0}) == {}


def test_bank_conflicts_are_a_share_of_the_passes() -> None:
    assert ncu_facts({BANK_CONFLICTS: 30.0, SHARED_PASSES: 40.0}) == {"gpu.bank_conflict_fraction": 0.75}
