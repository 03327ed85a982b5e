"""A candidate under profilers: the tools are stubs, torch's own is real, on the processor."""

from pathlib import Path

import pytest

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.profilers.take import MOST_LAUNCHES, take_profile

TASK = """
import torch
def get_inputs():
    return [torch.ones(8)]
def get_init_inputs():
    return []
"""
KERNEL = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""
NCU = """#!/bin/sh
# Stub of ncu: a table as it writes one.
echo "$@" > "$KEPT"
echo '"ID","Kernel Name","gpu__time_duration.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"'
echo '"","","nsecond","%"'
echo '"0","void row_kernel<float>(float*)","2000","91"'
echo '"1","other","900","5"'
"""
DENIED = """#!/bin/sh
# Stub of ncu without permission.
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission for them"
"""
NSYS = """#!/bin/sh
# Stub of nsys.
test "$1" = stats || exit 0
echo 'Time (%),Total Time (ns),Instances,Avg (ns),Name'
echo '100.0,9000,6,1500,row_kernel'
"""
ROCPROF = """#!/bin/sh
# Stub of rocprofv3: both tables, where it is told to.
while [ "$1" != --output-directory ]; do shift; done
mkdir -p "$2/host"
echo '"Name","Calls","TotalDurationNs"
"row_kernel.kd",5,5000' > "$2/host/1_kernel_stats.csv"
echo '"Dispatch_Id","Kernel_Name","Counter_Name","Counter_Value"
1,"row_kernel.kd","OccupancyPercent",50' > "$2/host/1_counter_collection.csv"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is searched for profilers."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    return place


def put(place: Path, name: str, script: str) -> None:
    (place / name).write_text(script.replace("$KEPT", str(place / "asked")))
    (place / name).chmod(0o755)


def test_counters_of_the_hottest_kernel_are_the_candidates(tools: Path) -> None:
    put(tools, "ncu", NCU)
    found = take_profile(KERNEL, TASK, "cuda", mode="eval", is_tf32=False)
    assert found.hottest == "row_kernel" and found.note.startswith(
        "profiled by ncu: row_kernel takes the most"
    )
    assert found.facts == {"gpu.launches": 2, "gpu.kernel_us": 2.0, "gpu.dram_fraction": 0.91}
    assert set(found.facts) <= set(METRICS)
    asked = (tools / "asked").read_text()
    assert "--profile-from-start off" in asked and f"--launch-count {MOST_LAUNCHES}" in asked
    assert asked.split()[-4:] == ["cuda:0", "eval", "fp32", "1"]


def test_without_permission_another_tool_gives_times_and_one_line_says_why(tools: Path) -> None:
    put(tools, "ncu", DENIED)
    put(tools, "nsys", NSYS)
    found = take_profile(KERNEL, TASK, "cuda", mode="eval", is_tf32=False)
    assert found.facts == {"gpu.launches": 2.0, "gpu.kernel_us": 1.5}
    assert "profiled by nsys" in found.note and "ERR_NVGPUCTRPERM" in found.note and "\n" not in found.note


def test_times_and_counters_of_amd_come_together(tools: Path) -> None:
    put(tools, "rocprofv3", ROCPROF)
    found = take_profile(KERNEL, TASK, "hip", mode="eval", is_tf32=False)
    assert found.facts == {"gpu.launches": 1.0, "gpu.kernel_us": 1.0, "gpu.occupancy": 0.5}


def test_where_nothing_can_be_read_the_note_says_so(tools: Path) -> None:
    put(tools, "ncu", DENIED)
    put(tools, "nsys", "#!/bin/sh\necho broken")
    found = take_profile(KERNEL, TASK, "cpu", mode="eval", is_tf32=False, timeout_s=3000.0)
    assert (found.facts, found.hottest) == ({}, None)
    assert found.note == "no profile, the compiler's word stands: torch.profiler saw no kernels"


def test_a_tool_that_does_not_end_is_killed(tools: Path) -> None:
    put(tools, "ncu", "#!/bin/sh\nsleep 600")
    put(tools, "nsys", NSYS)
    found = take_profile(KERNEL, TASK, "cuda", mode="eval", is_tf32=False, timeout_s=2.0)
    assert "ncu did not run (TimeoutExpired)" in found.note and found.hottest == "row_kernel"
