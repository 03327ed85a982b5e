"""Devices as the parent sees them: names, what a process is given to reach one, how many copies of inputs."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.marks import first_quick
from tests.referee.conftest import POINTWISE
from tests.referee.test_sandbox import STRONG, needs_linux, start_with

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.task import Task
from kernelwright.referee.baselines import known_baselines
from kernelwright.referee.device import (
    CACHES,
    MAX_LANES,
    MEMORY_SHARE,
    Device,
    DeviceFacts,
    n_lanes,
    parse_device,
)
from kernelwright.referee.sandbox import Tier
from kernelwright.referee.sandbox.view import make_view
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.measure import Clocks, events_problem

MIB = 1 << 20
sizes = st.integers(0, 1 << 36)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", Device("cpu")),
        ("copied", Device("copied")),
        ("cuda", Device("cuda", 0)),
        ("cuda:3", Device("cuda", 3)),
        ("hip:1", Device("hip", 1)),
    ],
)
def test_a_device_is_named_as_torch_names_it(text: str, device: Device) -> None:
    assert parse_device(text) == device
    assert parse_device(str(device)) == device


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:x", "cpu:0", "cuda:-1", "CUDA"])
def test_another_name_is_refused_with_those_that_are_known(text: str) -> None:
    with pytest.raises(UserError, match=r"known: cpu, cuda, cuda:N, hip"):
        parse_device(text)


def test_only_a_gpu_needs_a_driver_and_only_the_processor_shares_its_memory() -> None:
    kinds = {
        kind: (Device(kind).has_driver, Device(kind).is_apart) for kind in ("cpu", "copied", "cuda", "hip")
    }
    assert kinds == {
        "cpu": (False, False), "copied": (False, True), "cuda": (True, True), "hip": (True, True),
    }  # fmt: skip


def test_processes_see_the_one_device_that_was_asked_for() -> None:
    assert Device("cpu").environment({"CUDA_VISIBLE_DEVICES": "1"}) == {}
    assert Device("cuda", 2).environment({})["CUDA_VISIBLE_DEVICES"] == "2"
    assert Device("hip", 1).environment({})["HIP_VISIBLE_DEVICES"] == "1"
    found = Device("cuda").environment({"CUDA_HOME": "/opt/cuda", "SECRET": "1"})
    assert found["CUDA_HOME"] == "/opt/cuda" and not {"SECRET", "CUDA_PATH"} & found.keys()


def test_a_device_is_counted_among_those_that_we_may_see() -> None:
    outer = {"CUDA_VISIBLE_DEVICES": "5, GPU-abc"}
    assert Device("cuda", 0).environment(outer)["CUDA_VISIBLE_DEVICES"] == "5"
    assert Device("cuda", 1).environment(outer)["CUDA_VISIBLE_DEVICES"] == "GPU-abc"


@given(set_bytes=st.integers(1, 1 << 36), n_sets=st.integers(2, 3), cache_bytes=sizes, room_bytes=sizes)
def test_copies_exceed_the_caches_where_room_and_number_allow(
    set_bytes: int, n_sets: int, cache_bytes: int, room_bytes: int
) -> None:
    lanes = n_lanes(set_bytes, n_sets, cache_bytes, room_bytes)
    taken = lanes * n_sets * set_bytes
    assert 1 <= lanes <= MAX_LANES
    assert lanes == 1 or taken <= MEMORY_SHARE * room_bytes
    has_room = (lanes + 1) * n_sets * set_bytes <= MEMORY_SHARE * room_bytes
    assert taken >= CACHES * cache_bytes or lanes == MAX_LANES or not has_room


def test_inputs_beyond_the_caches_need_no_copies() -> None:
    assert n_lanes(200 * MIB, 3, 50 * MIB, 1 << 37) == 1
    assert n_lanes(10 * MIB, 3, 50 * MIB, 1 << 37) == 5


def test_a_cache_behind_the_second_level_counts_where_it_is_known() -> None:
    assert DeviceFacts.of("NVIDIA H100 80GB HBM3", 1 * MIB, None).cache_bytes == 50 * MIB
    assert DeviceFacts.of("AMD Instinct MI300X", 4 * MIB, None).cache_bytes == 256 * MIB
    assert DeviceFacts.of("nobody's", 7, 9) == DeviceFacts("nobody's", 7, 9)


def test_each_device_has_baselines_of_its_own() -> None:
    peers = ("torch_compile_frozen", "onnxruntime", "openvino")
    assert known_baselines("cpu") == ("eager", "torch_compile", *peers)
    assert known_baselines("cuda") == ("eager", "torch_compile", "eager_tf32", "torch_compile_max_autotune")


def clocks(seconds: float, events_s: float | None) -> list[Clocks]:
    return [Clocks(seconds, seconds, seconds, events_s)] * 5


def test_events_that_agree_with_the_parents_clock_are_believed() -> None:
    assert events_problem(clocks(0.01, 0.0099)) is None
    assert events_problem(clocks(0.01, 0.008)) is None  # launching took some of it
    assert events_problem(clocks(0.0004, 0.0)) is None  # within the slack


def test_work_that_the_events_do_not_see_is_a_disagreement() -> None:
    assert "show 0.01" in (events_problem(clocks(0.01, 0.0001)) or "")


def test_events_that_show_more_than_there_was_are_a_disagreement() -> None:
    assert "show 3.00" in (events_problem(clocks(0.01, 0.03)) or "")


def test_a_parent_that_was_kept_waiting_is_no_disagreement() -> None:
    assert events_problem([Clocks(0.0023, 0.01, 0.0023, 0.0023)] * 5) is None


def test_a_device_that_is_at_work_after_the_last_call_has_returned_is_no_disagreement() -> None:
    assert events_problem([Clocks(0.007, 0.01, 0.007, 0.0098)] * 5) is None


def test_without_a_device_nothing_is_said_of_events() -> None:
    assert events_problem(clocks(0.01, None)) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what is to be missing")
@pytest.mark.parametrize("name", first_quick(["cuda", "hip"]))
def test_a_device_that_is_not_there_is_the_machines_fault_in_one_line(name: str, tmp_path: Path) -> None:
    with Referee(RefereeSettings(cache_dir=tmp_path, device=name)) as referee:
        with pytest.raises(MachineError, match=rf"device {name}:0: not available here") as caught:
            referee.open(Task(name="pointwise", source=POINTWISE))
        assert "\n" not in str(caught.value)


def test_waking_a_driver_that_is_not_there_changes_nothing() -> None:
    for kind in ("cpu", "copied", "cuda", "hip"):
        before = Device(kind).nodes()
        Device(kind).wake()
        assert set(before) <= set(Device(kind).nodes())


@pytest.mark.slow
@needs_linux
def test_address_space_is_limited_on_the_processor_and_not_for_a_driver(tmp_path: Path) -> None:
    settings = RefereeSettings(cache_dir=tmp_path)
    for device, is_limited in (("copied", True), ("cuda", False)):
        launcher = Launcher(replace(settings, device=device))
        try:
            child = launcher.spawn_worker(6 << 30)
            limits = Path(f"/proc/{child.pid}/limits").read_text(encoding="ascii")
            line = next(line for line in limits.splitlines() if line.startswith("Max address space"))
            assert ("unlimited" not in line) == is_limited
            assert "unlimited" not in next(li for li in limits.splitlines() if li.startswith("Max processes"))
        finally:
            launcher.close()


def opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True


def is_open_to_all(path: str) -> bool:
    """Whether every user may open it, as a GPU's device files: a candidate is another user than root."""
    return opens(path) and os.stat(path).st_mode & 0o006 == 0o006


@pytest.fixture
def node() -> Iterator[str]:
    """A device file that no view shows by itself: a second /dev/null, or one that the machine has."""
    with tempfile.TemporaryDirectory() as folder:
        own = f"{folder}/second-null"
        with contextlib.suppress(OSError):  # only root may make one, and not everywhere
            os.chmod(folder, 0o755)
            os.mknod(own, stat.S_IFCHR, os.stat("/dev/null").st_rdev)
            os.chmod(own, 0o666)
        found = [path for path in (own, "/dev/fuse", "/dev/net/tun", "/dev/kvm") if is_open_to_all(path)]
        if not found:
            pytest.skip("no device file to try it with")
        yield found[0]


@needs_linux
@pytest.mark.parametrize("tier", STRONG)
def test_device_files_are_there_only_for_who_is_given_them(tier: Tier, node: str) -> None:
    bare, given_it = make_view(), make_view(nodes=[node])
    for view, expected in ((bare, False), (given_it, True), (given_it.without_nodes(), False)):
        with start_with(tier, view, lambda: opens(node)) as confined:
            assert confined.result() is expected


def test_groups_are_those_of_device_files_that_not_everyone_may_open(tmp_path: Path) -> None:
    shared, kept = tmp_path / "shared", tmp_path / "kept"
    read, roots = tmp_path / "read", tmp_path / "roots"
    for path, mode in ((shared, 0o666), (kept, 0o660), (read, 0o444), (roots, 0o400)):
        path.touch()
        path.chmod(mode)
    assert make_view(nodes=[str(shared), str(read), str(roots)]).groups() == ()
    assert make_view(nodes=[str(shared), str(kept)]).groups() == (kept.stat().st_gid,)
