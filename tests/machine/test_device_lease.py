"""One process at a time on a device, whoever it is and however the last one ended."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.machine import device_lease, private_folder
from kernelwright.machine.device_lease import DeviceLease
from kernelwright.machine.topology import memory_nodes

PATIENCE_S = 60.0
HOLDER = """
import sys
from pathlib import Path
from kernelwright.machine import private_folder
from kernelwright.machine.device_lease import DeviceLease
private_folder.SHARED = Path(sys.argv[1])
with DeviceLease(sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
print("given back", flush=True)
"""


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of its own, as far as locks go."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(private_folder, "SHARED", folder)
    private_folder.private_folder.cache_clear()
    yield folder
    private_folder.private_folder.cache_clear()
    device_lease._given_up.clear()


def hold(shared: Path, *devices: str) -> "subprocess.Popen[str]":
    """Start a process that holds devices until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(shared), *devices],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


class Waiter:
    """A thread that takes devices; ``has`` is set while it holds them."""

    def __init__(self, *devices: str) -> None:
        self.lines: list[str] = []
        self.told, self.has, self.go = threading.Event(), threading.Event(), threading.Event()
        self._lease = DeviceLease(devices, self._tell)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _tell(self, line: str) -> None:
        self.lines.append(line)
        self.told.set()

    def _run(self) -> None:
        with self._lease:
            self.has.set()
            self.go.wait(PATIENCE_S)

    def end(self) -> None:
        self.go.set()
        self._thread.join(PATIENCE_S)


def test_another_process_waits_and_says_for_whom(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lease, "TELL_AFTER_S", 0.0)
    holder = hold(shared, "node0")
    waiter = Waiter("node0")
    assert waiter.told.wait(PATIENCE_S)
    assert waiter.lines[0].startswith(f"waiting for the device node0: used by process {holder.pid} since ")
    assert not waiter.has.is_set()
    holder.communicate("")
    assert waiter.has.wait(PATIENCE_S)
    waiter.end()


def test_who_gives_it_back_waits_behind_those_who_wait(shared: Path) -> None:
    with DeviceLease(["node0"]) as lease:
        waiter = Waiter("node0")
        assert waiter.told.wait(PATIENCE_S)
        waiter.go.set()
        lease.release()
        lease.take()
        assert waiter.has.is_set()
    waiter.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_is_killed_gives_it_back(shared: Path, number: int) -> None:
    holder = hold(shared, "node0")
    waiter = Waiter("node0")
    holder.send_signal(number)
    assert waiter.has.wait(PATIENCE_S)
    waiter.end()
    holder.communicate()


def test_other_devices_and_disjoint_nodes_are_free(shared: Path) -> None:
    holder = hold(shared, "node0", "cuda-0")
    with DeviceLease(["node1", "cuda-1"]) as lease:
        assert lease.waited_s < PATIENCE_S
    holder.communicate("")


def test_those_who_want_several_never_wait_for_each_other(shared: Path) -> None:
    done = []

    def take(devices: tuple[str, ...]) -> None:
        for _ in range(20):
            with DeviceLease(devices):
                pass
        done.append(devices)

    orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "c"), ("c", "a")]
    threads = [threading.Thread(target=take, args=(order,), daemon=True) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(done) == sorted(orders)


def test_no_two_processes_hold_it_at_once(shared: Path, tmp_path: Path) -> None:
    """Each writes when it has it and when it gives it back; no two spans may meet."""
    spans = """
import sys, time
from pathlib import Path
from kernelwright.machine import private_folder
from kernelwright.machine.device_lease import DeviceLease
private_folder.SHARED = Path(sys.argv[1])
for _ in range(15):
    with DeviceLease(["node0"]):
        begin = time.monotonic_ns()
        time.sleep(0.002)
        print(begin, time.monotonic_ns(), flush=True)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", spans, str(shared)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found = []
    for process in processes:
        out, _ = process.communicate(timeout=PATIENCE_S)
        found += [tuple(map(int, line.split())) for line in out.splitlines()]
    found.sort()
    assert len(found) == 45
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(found))


def test_a_thread_that_holds_it_already_is_told_so(shared: Path) -> None:
    with DeviceLease(["node0"]), pytest.raises(RuntimeError, match="this thread holds the lease already"):
        DeviceLease(["node0"]).take()
    with DeviceLease(["node0"]):
        pass


def test_what_is_to_be_done_before_a_wait_is_done_once_and_only_then(shared: Path) -> None:
    calls: list[int] = []
    lease = DeviceLease(["node0"])
    lease.take(lambda: calls.append(1))
    lease.release()
    assert calls == []
    holder = hold(shared, "node0")

    def before() -> None:
        calls.append(2)
        holder.communicate("")

    lease.take(before)
    lease.release()
    assert calls == [2]


def test_an_error_before_a_wait_leaves_nothing_held(shared: Path) -> None:
    holder = hold(shared, "node0")
    lease = DeviceLease(["node0"])
    with pytest.raises(ZeroDivisionError):
        lease.take(lambda: 1 / 0)
    holder.communicate("")
    with DeviceLease(["node0"]):
        pass


def hostile_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def hostile_pipe(path: Path) -> None:
    os.mkfifo(path)


def hostile_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [hostile_link, hostile_pipe, hostile_folder])
def test_what_another_user_puts_in_the_place_of_the_common_file_stops_nobody(
    shared: Path, make: object
) -> None:
    make(shared / ".kernelwright-device-node0")  # type: ignore[operator]
    with DeviceLease(["node0"]):
        waiter = Waiter("node0")
        assert not waiter.has.is_set()
    assert waiter.has.wait(PATIENCE_S)
    waiter.end()
    assert Path("/etc/passwd").stat().st_size > 0


def test_another_user_can_hold_the_common_file_for_a_while_only(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lease, "OTHERS_S", 0.1)
    monkeypatch.setattr(device_lease, "TELL_AFTER_S", 0.0)
    lines: list[str] = []
    with DeviceLease(["node0"]):
        pass
    file = os.open(shared / ".kernelwright-device-node0", os.O_RDONLY)
    device_lease.fcntl.flock(file, device_lease.fcntl.LOCK_EX)
    with DeviceLease(["node0"], lines.append) as first:
        assert first.waited_s >= 0.1
    assert "another user has it" in lines[0]
    with DeviceLease(["node0"], lines.append):  # the wait is over: it is not waited for again
        assert len(lines) == 1
    os.close(file)
    with DeviceLease(["node0"]):
        assert device_lease._given_up == set()


def test_a_file_that_is_removed_meanwhile_divides_nobody(shared: Path) -> None:
    with DeviceLease(["node0"]):
        pass
    held = DeviceLease(["node0"])
    held.take()
    (shared / ".kernelwright-device-node0").unlink()  # a cleaner of temporary files
    waiter = Waiter("node0")
    time.sleep(0.05)
    assert not waiter.has.is_set()
    held.release()
    assert waiter.has.wait(PATIENCE_S)
    waiter.end()


def test_a_folder_that_is_another_users_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = shared / f".kernelwright-{os.getuid()}"
    taken.symlink_to(tmp_path)
    monkeypatch.setattr(private_folder, "_home", lambda: tmp_path / "home")
    (tmp_path / "home").mkdir()
    found = private_folder.private_folder()
    assert found.parent == tmp_path / "home" and found.stat().st_mode & 0o777 == 0o700


def test_the_folder_is_made_private_again(shared: Path) -> None:
    folder = shared / f".kernelwright-{os.getuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o777)
    assert private_folder.private_folder() == folder and folder.stat().st_mode & 0o777 == 0o700


def test_a_damaged_note_of_the_holder_is_no_error(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lease, "TELL_AFTER_S", 0.0)
    holder = hold(shared, "node0")
    note = private_folder.private_folder() / "device-node0"
    assert json.loads(note.read_text())["pid"] == holder.pid
    note.write_text("\x1b[2J{")
    waiter = Waiter("node0")
    assert waiter.told.wait(PATIENCE_S)
    assert waiter.lines[0].endswith("used by another process")
    holder.communicate("")
    assert waiter.has.wait(PATIENCE_S)
    waiter.end()


def test_a_processor_has_at_least_one_memory_node() -> None:
    assert len(memory_nodes()) >= 1
