"""What a confined process can and cannot do, tried for real at every tier that this machine has."""

import contextlib
import ctypes
import errno
import faulthandler
import fcntl
import json
import os
import platform
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.referee.bubbles import fork_into, wrapped

from kernelwright.core.errors import UserError
from kernelwright.referee.sandbox import ORDER, ProcessLimits, Sandbox, Tier
from kernelwright.referee.sandbox.choose import choose, require
from kernelwright.referee.sandbox.enter import Confinement, enter
from kernelwright.referee.sandbox.processes import children_of, family_of, stat_of, unnamed_bytes
from kernelwright.referee.sandbox.report import describe
from kernelwright.referee.sandbox.seccomp import REFUSED, make_filter
from kernelwright.referee.sandbox.view import View, make_view
from kernelwright.referee.worker.driver import DRIVERS, DriverError

SCRATCH_BYTES = 4 << 20
N_PROCESSES = 40
STRONG = (Tier.NAMESPACES, Tier.BUBBLEWRAP, Tier.LANDLOCK)
APART = (Tier.NAMESPACES, Tier.BUBBLEWRAP)
LIBC = ctypes.CDLL(None, use_errno=True)

needs_linux = pytest.mark.skipif(platform.system() != "Linux", reason="processes are confined on Linux only")
pytestmark = needs_linux


@cache
def sandbox_of(tier: Tier) -> Sandbox:
    return choose(make_view(), tier)


def at(tier: Tier) -> Sandbox:
    sandbox = sandbox_of(tier)
    if sandbox.tier is not tier:
        pytest.skip(f"not here: {sandbox.why_not}")
    return sandbox


@dataclass
class Confined:
    """A child in its cell."""

    keeper: int
    words: int
    """Descriptor of what it says."""

    def result(self) -> object:
        """What the function returned; a string that begins with ``raised`` when it did not."""
        told = b""
        while chunk := os.read(self.words, 65536):
            told += chunk
        return json.loads(told) if told else "raised: died without a word"

    def wait(self) -> int:
        """How it ended, as its parent sees it: negative for a signal."""
        _, status = os.waitpid(self.keeper, 0)
        os.close(self.words)
        return os.waitstatus_to_exitcode(status)


@contextlib.contextmanager
def start(
    sandbox: Sandbox,
    work: Callable[[], object],
    extra: dict[str, str] | None = None,
    view: View | None = None,
) -> Iterator[Confined]:
    """Run a function in a cell; the cell is gone when this ends."""
    scratch = tempfile.mkdtemp(prefix="kernelwright-")
    limits = ProcessLimits(
        address_space_bytes=64 << 30, cpu_s=60, file_bytes=SCRATCH_BYTES, processes=N_PROCESSES,
        descriptors=64,
        scratch_bytes=SCRATCH_BYTES,
    )  # fmt: skip
    cell = Confinement(sandbox, view or make_view(), limits, scratch, extra or {})
    words, told = os.pipe()
    parent = os.getpid()
    around = contextlib.ExitStack()
    first = around.enter_context(_bubble_of(cell)) if sandbox.tier is Tier.BUBBLEWRAP else None
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()  # some are to crash, without a word
        os.closerange(3, told)  # what other tests hold open counts against its limit
        os.closerange(told + 1, 4096)
        try:
            if first is not None:
                fork_into(first)
            enter(cell, parent if first is None else os.getppid())
            answer = work()
        except BaseException as error:
            answer = f"raised: {type(error).__name__}: {error}"
        os.write(told, json.dumps(answer).encode())
        os._exit(0)
    os.close(told)
    try:
        yield Confined(pid, words)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        around.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _bubble_of(cell: Confinement) -> contextlib.AbstractContextManager[int]:
    folders = {os.path.dirname(path) for path in cell.extra}
    return wrapped(cell.view, [cell.scratch], sorted(folders))


def start_with(
    tier: Tier, view: View, work: Callable[[], object]
) -> contextlib.AbstractContextManager[Confined]:
    """Run a function in a cell that shows another view."""
    return start(at(tier), work, view=view)


def run(tier: Tier, work: Callable[[], object], extra: dict[str, str] | None = None) -> object:
    with start(at(tier), work, extra) as confined:
        return confined.result()


def succeeds(attempt: Callable[[], object]) -> Callable[[], bool]:
    """Whether an attempt does without an OSError."""

    def tried() -> bool:
        try:
            attempt()
        except OSError:
            return False
        return True

    return tried


def libc(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


PARENT = os.getpid()
SECRET = os.path.join(tempfile.gettempdir(), f"kernelwright-test-{PARENT}", "secret")


@pytest.fixture(autouse=True, scope="module")
def secret() -> Iterator[None]:
    folder = Path(SECRET).parent
    folder.mkdir()
    Path(SECRET).write_text("secret", encoding="ascii")
    yield
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _secret_is_whole() -> Iterator[None]:
    yield
    Path(SECRET).write_text("secret", encoding="ascii")


def read_parent_memory() -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(id(LIBC), 8)
    libc("process_vm_readv", PARENT, local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1), ctypes.c_ulong(0))


def send_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", 9))


MEMFD = "take memory that nobody counts"
ATTEMPTS: dict[str, tuple[Callable[[], object], tuple[Tier, ...]]] = {
    "list homes": (lambda: os.listdir("/home"), STRONG),
    "find a file outside": (lambda: os.stat(SECRET), APART),
    "read a file outside": (lambda: Path(SECRET).read_bytes(), STRONG),
    "read the accounts": (lambda: Path("/etc/shadow").read_bytes(), STRONG),
    "write a file outside": (lambda: Path(SECRET).with_name("hostile").write_text("x"), STRONG),
    "delete a file outside": (lambda: os.unlink(SECRET), STRONG),
    "write to the system": (lambda: Path("/usr/lib/hostile").touch(), STRONG),
    "change the interpreter": (lambda: os.close(os.open(os.__file__, os.O_RDWR)), STRONG),
    "empty a file": (lambda: os.truncate(SECRET, 0), STRONG),
    "signal its parent": (lambda: os.kill(PARENT, signal.SIGCONT), ORDER),
    "signal everyone": (lambda: os.kill(-1, signal.SIGCONT), ORDER),
    "open its parent's memory": (lambda: os.close(os.open(f"/proc/{PARENT}/mem", os.O_RDONLY)), STRONG),
    "list its parent's descriptors": (lambda: os.listdir(f"/proc/{PARENT}/fd"), STRONG),
    "find its parent": (lambda: os.stat(f"/proc/{PARENT}"), APART),
    "read its parent's memory": (read_parent_memory, ORDER),
    "trace its parent": (lambda: libc("ptrace", 0x4206, PARENT, None, None), ORDER),
    "limit its parent": (lambda: resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (9, 9)), ORDER),
    "pin its parent": (lambda: os.sched_setaffinity(PARENT, {0}), ORDER),
    "slow its parent down": (lambda: os.setpriority(os.PRIO_PROCESS, PARENT, 19), ORDER),
    "use TCP": (lambda: socket.create_connection(("127.0.0.1", 9), timeout=1), ORDER),
    "use UDP": (send_udp, ORDER),
    "use a local socket": (lambda: socket.socket(socket.AF_UNIX), ORDER),
    "write to a local socket by name": (lambda: socket.socketpair(type=socket.SOCK_DGRAM), ORDER),
    "ask the kernel's network": (lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW), ORDER),
    "take a user namespace": (lambda: libc("unshare", 0x10000000), ORDER),
    "mount": (lambda: libc("mount", b"x", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None), ORDER),
    "be root again": (lambda: os.setuid(0), ORDER),
    MEMFD: (lambda: os.memfd_create("x"), ORDER),
    "take uncounted shared memory": (lambda: libc("shmget", 0, ctypes.c_size_t(4096), 0o1600), ORDER),
    "outlive its keeper": (lambda: libc("prctl", 1, ctypes.c_ulong(0)), ORDER),
    "drop the time of its children": (lambda: drop_times_of_children(), ORDER),
    "have a descriptor signal": (lambda: _own_by_parent(), ORDER),
    "choose a descriptor's signal": (lambda: _choose_signal(), ORDER),
    "have a timer signal": (lambda: _make_timer(), ORDER),
}  # fmt: skip
"""What -> how it is tried, and where it must not work."""


def drop_times_of_children() -> None:
    """The call itself seems to succeed: ninja 1.13 sets a handler, and ends where it may not."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os._exit(0)
    with contextlib.suppress(ChildProcessError):  # nothing to wait for: the kernel has dropped it
        os.waitpid(child, 0)
        raise PermissionError("the child was there to be waited for")


def _own_by_parent() -> None:
    ours, _ = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETOWN, PARENT)


def _choose_signal() -> None:
    ours, _ = os.pipe()
    fcntl.fcntl(ours, 10, signal.SIGCONT)


def _make_timer() -> None:
    """One that sends SIGCONT to a process that has been stopped."""
    event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
    libc("timer_create", 1, event, ctypes.byref(ctypes.c_void_p()))


Attempts = dict[str, tuple[Callable[[], object], tuple[Tier, ...]]]
NODE = "/dev/null"
"""Stands for a GPU's device file: what is opened for its driver hangs on whether there is one."""


def worked_of(tier: Tier, attempts: Attempts, view: View | None = None) -> dict[str, bool]:
    """What of it worked at a tier."""
    if not at(tier).has_filter and tier is Tier.LIMITS:
        pytest.skip("limits without a filter stop none of these")
    with start(
        at(tier), lambda: {what: succeeds(attempt)() for what, (attempt, _) in attempts.items()}, view=view
    ) as confined:
        worked = confined.result()
    assert isinstance(worked, dict), worked
    return worked


def wrongly(tier: Tier, attempts: Attempts, view: View | None = None) -> list[str]:
    """What of it worked that must not."""
    worked = worked_of(tier, attempts, view)
    return [what for what, (_, tiers) in attempts.items() if tier in tiers and worked[what]]


@pytest.mark.parametrize("tier", ORDER)
def test_what_a_tier_stops_does_not_work(tier: Tier) -> None:
    assert wrongly(tier, ATTEMPTS) == []
    if tier in STRONG:
        assert Path(SECRET).read_text(encoding="ascii") == "secret"


SEEN: Attempts = {
    "signal process 1": (lambda: os.kill(1, signal.SIGCONT), ORDER[1:]),
    "limit process 1": (lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (9, 9)), ORDER[1:]),
    "list what process 1 has open": (lambda: os.listdir("/proc/1/fd"), ORDER[1:]),
    "change what process 1 is called": (lambda: Path("/proc/1/comm").write_text("x"), ORDER[1:]),
}
"""What is tried on a process that is seen: at these tiers process 1 is not one's own."""


@pytest.mark.parametrize("tier", ORDER[1:])
def test_a_process_that_is_seen_is_not_reached(tier: Tier) -> None:
    assert wrongly(tier, SEEN) == []


def listen_as_a_driver_does() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(f"\0cuda-uvmfd-4026531836-{os.getpid()}")
        sock.listen(16)


def name_a_thread() -> None:
    ready, done = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    try:
        for task in ("/proc/self/task", f"/proc/{os.getpid()}/task"):
            Path(f"{task}/{thread.native_id}/comm").write_text("cuda-EvtHandlr", encoding="ascii")
    finally:
        done.set()
        thread.join()


FOR_DRIVERS: Attempts = {
    "memory without a name": (lambda: os.close(os.memfd_create("cuda")), ORDER),
    "listen at a local socket": (listen_as_a_driver_does, ORDER),
    "name a thread": (name_a_thread, STRONG),
    "ask which drivers there are": (lambda: Path("/proc/devices").read_bytes(), STRONG[1:]),
}
"""What a GPU's driver does when it begins, and where it must not work without a GPU."""


@pytest.mark.parametrize("tier", ORDER)
def test_a_gpus_driver_can_begin_only_where_there_is_a_gpu(tier: Tier) -> None:
    assert all(worked_of(tier, FOR_DRIVERS, make_view(nodes=[NODE])).values())
    assert wrongly(tier, FOR_DRIVERS, make_view(nodes=[NODE]).without_nodes()) == []


def connect_by_name() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{SECRET}.socket")


def connect_in_the_abstract() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(ABSTRACT)


ABSTRACT = f"\0kernelwright-test-{PARENT}"
BESIDE_DRIVERS: Attempts = {
    **{what: how for what, how in ATTEMPTS.items() if what not in ("use a local socket", MEMFD)},
    "reach a program by the name of its socket": (connect_by_name, ORDER),
    "reach a program by an abstract name": (connect_in_the_abstract, ORDER),
    "take a socket for datagrams": (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), ORDER),
    "change the system's settings": (lambda: open("/proc/sys/kernel/core_pattern", "r+").close(), STRONG),
    "press a key of the system's": (lambda: open("/proc/sysrq-trigger", "w").close(), STRONG),
    "change what the keeper is called": (lambda: Path(f"/proc/{os.getppid()}/comm").write_text("x"), STRONG),
}
"""What stays shut when a GPU's driver is let in."""


@pytest.mark.parametrize("tier", ORDER)
def test_what_is_opened_for_a_driver_reaches_nobody_else(tier: Tier) -> None:
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as free:
        named.bind(f"{SECRET}.socket")
        free.bind(ABSTRACT)
        for sock in (named, free):
            sock.listen(1)
        try:
            assert wrongly(tier, BESIDE_DRIVERS, make_view(nodes=[NODE])) == []
        finally:
            os.unlink(f"{SECRET}.socket")


def test_root_in_a_user_namespace_of_its_own_changes_nothing_for_a_driver_either() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, who may change the system's settings without any capability")
    sandbox = replace(at(Tier.NAMESPACES), has_user_namespace=True, has_own_user=False)
    attempts = {**BESIDE_DRIVERS, **FOR_DRIVERS}
    with start(
        sandbox, lambda: [what for what, (attempt, _) in attempts.items() if succeeds(attempt)()],
        view=make_view(nodes=[NODE]),
    ) as confined:  # fmt: skip
        worked = confined.result()
    if isinstance(worked, str):
        pytest.skip(f"not here: {worked}")
    assert worked == list(FOR_DRIVERS)


def begins_as_drivers_do() -> None:
    for attempt, _ in FOR_DRIVERS.values():
        attempt()


def begins_outside_only() -> None:
    if os.getpid() < 9:
        raise DriverError("cuInit: CUDA_ERROR_OPERATING_SYSTEM")


def never_begins() -> None:
    raise DriverError("cuInit: CUDA_ERROR_NO_DEVICE")


@pytest.mark.parametrize(
    ("driver", "is_at_fault"),
    [(begins_as_drivers_do, False), (begins_outside_only, True), (never_begins, False)],
)
def test_a_tier_in_which_the_driver_does_not_begin_is_not_chosen(
    driver: Callable[[], None], is_at_fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(Tier.NAMESPACES)
    monkeypatch.setitem(DRIVERS, "libcuda", driver)
    found = choose(make_view(nodes=[NODE], driver="libcuda"))
    if is_at_fault:
        assert found.tier is not Tier.NAMESPACES
        assert found.why_not["namespaces"] == "DriverError: cuInit: CUDA_ERROR_OPERATING_SYSTEM"
    else:
        assert found == sandbox_of(Tier.NAMESPACES)


def test_a_tier_that_a_gpu_does_not_get_is_told_with_the_reason() -> None:
    why = {"namespaces": "DriverError: cuInit: CUDA_ERROR_OPERATING_SYSTEM"}
    strong, weak = Sandbox(Tier.NAMESPACES), Sandbox(Tier.LANDLOCK, why_not=why)
    assert "cuda" not in describe(strong, {"cuda": strong}).advice
    words = "On cuda landlock only (no namespaces: DriverError: cuInit: CUDA_ERROR_OPERATING_SYSTEM)"
    assert words in describe(strong, {"cuda": weak}).advice


def test_memory_without_a_name_is_counted() -> None:
    def work() -> int:
        os.write(os.memfd_create("cuda"), bytes(2 << 20))
        time.sleep(60)
        return 0

    with start(at(Tier.LIMITS), work, view=make_view(nodes=[NODE])) as confined:
        _wait_for(lambda: unnamed_bytes(family_of(confined.keeper)) >= 2 << 20)


@pytest.mark.parametrize("tier", ORDER)
def test_an_honest_program_finds_what_it_needs(tier: Tier) -> None:
    def work() -> list[object]:
        Path("kernel.c").write_text("int seven(void) { return 7; }", encoding="ascii")
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so"], check=True, capture_output=True
        )
        pipe = subprocess.run(["sh", "-c", "echo out"], capture_output=True, check=True, text=True).stdout
        ours, theirs = socket.socketpair()
        ours.sendall(b"x")
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        urandom = len(os.read(os.open("/dev/urandom", os.O_RDONLY), 4))
        maps = "r-xp" in Path("/proc/self/maps").read_text(encoding="ascii")
        processors = Path("/sys/devices/system/cpu/online").exists()
        return [
            ctypes.CDLL("./kernel.so").seven(), pipe, theirs.recv(1).decode(), urandom, maps, processors,
            os.environ["HOME"] == os.getcwd(), json.dumps(sys.version_info[:2]) != "",
        ]  # fmt: skip

    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    assert run(tier, work) == [7, "out\n", "x", 4, True, True, True, True]


@pytest.mark.parametrize("tier", ORDER)
def test_no_power_is_left(tier: Tier) -> None:
    def work() -> dict[str, str]:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return dict(line.split(":\t", 1) for line in lines)

    status = run(tier, work)
    assert isinstance(status, dict)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    if os.geteuid() == 0 or at(tier).has_user_namespace:
        assert int(status["CapBnd"], 16) == 0
    if at(tier).has_own_user:
        assert "0" not in status["Uid"].split() + status["Gid"].split()


def test_the_scratch_has_a_size() -> None:
    def work() -> list[int]:
        written = []
        for name in ("a", "/tmp/b", "/dev/shm/c"):
            size = 0
            with contextlib.suppress(OSError), open(name, "wb", buffering=0) as file:
                while True:
                    size += file.write(b"x" * 65536)
            written.append(size)
        return written

    written = run(Tier.NAMESPACES, work)
    assert isinstance(written, list) and 0 < sum(written) <= SCRATCH_BYTES


def test_the_scratch_leaves_nothing_outside() -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    assert run(Tier.NAMESPACES, lambda: Path("/tmp/left-behind").write_text("x")) == 1
    assert "left-behind" not in set(os.listdir(tempfile.gettempdir())) - before


def test_there_is_a_limit_on_processes_and_descriptors() -> None:
    def work() -> list[int]:
        count = 0
        try:
            while count < 10 * N_PROCESSES:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                count += 1
        except OSError as error:
            assert error.errno == errno.EAGAIN
        opened = []
        with contextlib.suppress(OSError):
            while len(opened) < 1000:
                opened.append(os.open("/dev/null", os.O_RDONLY))
        return [count, len(opened)]

    counted = run(Tier.NAMESPACES, work)
    assert isinstance(counted, list), counted
    assert 0 < counted[0] <= N_PROCESSES and 0 < counted[1] <= 64


@pytest.mark.parametrize("tier", ORDER)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_it_is_seen_how_a_process_ended(tier: Tier, number: signal.Signals) -> None:
    with start(at(tier), lambda: os.kill(os.getpid(), number)) as confined:
        assert confined.wait() == -number


@pytest.mark.parametrize("tier", ORDER)
def test_an_exit_code_is_seen(tier: Tier) -> None:
    with start(at(tier), lambda: os._exit(7)) as confined:
        assert confined.wait() == 7


def test_a_daemon_ends_with_its_process_table() -> None:
    mark = f"98765.{uuid.uuid4().int % 10**9:09d}"

    def work() -> str:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", mark])
            os._exit(0)
        time.sleep(600)
        return ""

    def is_there() -> bool:
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    return True
        return False

    with start(at(Tier.NAMESPACES), work) as confined:
        _wait_for(is_there)
        os.kill(confined.keeper, signal.SIGKILL)
        confined.wait()
        _wait_for(lambda: not is_there())


def test_a_dead_keeper_takes_everything_with_it() -> None:
    with start(at(Tier.NAMESPACES), lambda: time.sleep(600)) as confined:
        _wait_for(lambda: len(family_of(confined.keeper)) == 3)
        family = family_of(confined.keeper)
        os.kill(confined.keeper, signal.SIGKILL)
        confined.wait()
        for pid in family:
            _wait_for(lambda pid=pid: not stat_of(pid) or stat_of(pid)[0] in "ZX")  # type: ignore[misc]


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("tier", STRONG)
def test_one_library_of_the_cache_is_shown_and_no_other(tier: Tier, tmp_path: Path) -> None:
    for name in ("mine.so", "other.so"):
        (tmp_path / name).write_text(name, encoding="ascii")
    mine = str(tmp_path / "mine.so")

    def work() -> list[bool]:
        return [
            succeeds(lambda: Path(mine).read_bytes())(),
            succeeds(lambda: (tmp_path / "other.so").read_bytes())(),
            succeeds(lambda: Path(mine).write_bytes(b"x"))(),
            tier is Tier.NAMESPACES and "other.so" in os.listdir(tmp_path),
            tier is not Tier.NAMESPACES and succeeds(lambda: os.listdir(tmp_path))(),
        ]

    if not os.access(tmp_path.parent, os.X_OK):
        pytest.skip("the temporary folder cannot be entered")
    assert run(tier, work, {mine: mine}) == [True, False, False, False, False]


def test_an_unprivileged_user_gets_namespaces_too() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or python is None or setpriv is None:
        pytest.skip("needs root to stop being root, and an interpreter that everyone may run")
    source = str(Path(sys.modules[choose.__module__].__file__ or "").parents[3])
    command = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", python]
    is_new = subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False)
    done = subprocess.run(
        [*command, "-m", choose.__module__], capture_output=True, text=True, check=False, cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    if is_new.returncode or "No module named" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip(f"that interpreter cannot run us: {done.stderr[-200:]}")
    found = json.loads(done.stdout)["sandbox"]
    if found["tier"] != "namespaces":
        pytest.skip(f"not here: {found['why_not']}")
    assert found["has_user_namespace"] and not found["has_own_user"]


def test_less_than_what_is_required_is_refused_in_one_line() -> None:
    weak = Sandbox(Tier.LIMITS, why_not={"landlock": "the kernel has none", "namespaces": "not permitted"})
    require(weak, Tier.LIMITS)
    require(weak, None)
    with pytest.raises(UserError) as caught:
        require(weak, Tier.LANDLOCK)
    assert "--require-sandbox landlock" in str(caught.value) and "the kernel has none" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_stopped_is_said() -> None:
    for tier in ORDER:
        strong, weak = Sandbox(tier, has_filter=True), Sandbox(tier)
        assert strong.not_stopped and set(strong.not_stopped) < set(weak.not_stopped)
    assert [tier.strength for tier in ORDER] == sorted((tier.strength for tier in ORDER), reverse=True)


def test_a_home_on_the_path_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, packages = tmp_path / "home", tmp_path / "packages"
    (packages / "thing.dist-info").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setattr(sys, "path", [str(home), str(packages), *sys.path])
    monkeypatch.setenv("HOME", str(home))
    shown = make_view().paths
    assert str(packages) in shown
    assert not any(str(home).startswith(path) for path in shown)


def test_a_link_is_shown_under_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "inside").mkdir()
    view = View((str(tmp_path / "link"), str(tmp_path / "real" / "inside"), str(tmp_path / "missing")))
    real = os.path.realpath(tmp_path / "real")
    assert view.targets() == {str(tmp_path / "link"): real, real: real}


def test_children_are_found_through_every_thread() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in children_of(os.getpid()) and child.pid in family_of(os.getpid())
    finally:
        child.kill()
        child.wait()


ALLOW, ERRNO = 0x7FFF0000, 0x00050000
MACHINE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
column = {"x86_64": 0, "aarch64": 1}


def interpret(program: bytes, number: int, arguments: list[int]) -> int:
    """Run a filter as the kernel would; an instruction out of bounds is an IndexError."""
    data = number.to_bytes(4, "little") + MACHINE[platform.machine()].to_bytes(4, "little") + bytes(8)
    data += b"".join(value.to_bytes(8, "little") for value in arguments)
    steps = [program[i : i + 8] for i in range(0, len(program), 8)]
    place = accumulator = 0
    while True:
        step = steps[place]
        code, if_true, if_false = int.from_bytes(step[:2], "little"), step[2], step[3]
        value = int.from_bytes(step[4:], "little")
        place += 1
        if code == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "little")
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            is_true = {
                0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)
            }[code]  # fmt: skip
            place += if_true if is_true else if_false


words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2, 8, 4711, 0x5412, 0x10000000, 2**32 - 1])


@pytest.mark.skipif(platform.machine() not in MACHINE, reason="no filter for this processor")
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 460), st.tuples(words, words, words), st.booleans(), st.booleans())
def test_the_filter_refuses_what_it_names_and_its_twin_nothing(
    number: int, first: tuple[int, int, int], alone: bool, has_driver: bool
) -> None:
    arguments = [*first, 0, 0, 0]
    me = 4711 if alone else None
    strict = make_filter(alone_as=me, is_permissive=False, has_driver=has_driver)
    twin = make_filter(alone_as=me, is_permissive=True, has_driver=has_driver)
    assert len(strict) == len(twin)
    assert interpret(twin, number, arguments) == ALLOW
    answer = interpret(strict, number, arguments)
    assert answer == ALLOW or answer & 0xFFFF0000 == ERRNO
    refused = {name: numbers[column[platform.machine()]] for name, numbers in REFUSED.items()}
    if number in refused.values() and not (has_driver and number == refused["memfd_create"]):
        assert answer != ALLOW


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize(
    ("number", "arguments", "is_allowed"),
    [
        (56, [0x00010F00], True),  # clone: a thread
        (56, [0x10000011], False),  # clone: a user namespace
        (62, [4711, 6], True),  # kill: itself
        (62, [0, 6], True),  # kill: its group
        (62, [2**32 - 1, 9], False),  # kill: everyone
        (62, [2**32 - 4711, 9], False),  # kill: another group
        (234, [4711, 4712, 6], True),  # tgkill: a thread of its own, abort()
        (234, [1, 1, 6], False),
        (41, [1], False),  # socket
        (53, [1, 1], True),  # socketpair: local
        (53, [1, 0x80805], True),  # of packets, closed at exec and not waiting
        (53, [1, 2], False),  # of datagrams
        (53, [2, 1], False),
        (16, [0, 0x5413], True),  # ioctl: window size
        (16, [0, 0x5412], False),  # ioctl: type into the terminal
        (0, [0], True),  # read
        (435, [0], False),  # clone3
        (0x40000000 + 39, [0], False),  # another numbering of the same calls
    ],
)
def test_the_filter_looks_at_arguments(number: int, arguments: list[int], is_allowed: bool) -> None:
    program = make_filter(alone_as=4711, is_permissive=False)
    answer = interpret(program, number, [*arguments, 0, 0, 0, 0, 0][:6])
    assert (answer == ALLOW) is is_allowed


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize(
    ("number", "arguments", "alone_as", "is_allowed"),
    [
        (41, [1, 0x80005], 4711, True),  # socket: local, of packets
        (41, [1, 1], 4711, True),
        (41, [1, 2], 4711, False),  # of datagrams
        (41, [2, 1], 4711, False),  # TCP
        (41, [16, 3], None, False),  # the kernel's own
        (42, [3], 4711, False),  # connect, where there is somebody
        (42, [3], None, True),
        (319, [0], 4711, True),  # memfd_create
        (447, [0], None, False),  # memfd_secret
    ],
)
def test_the_filter_lets_a_driver_listen_and_reach_nobody(
    number: int, arguments: list[int], alone_as: int | None, is_allowed: bool
) -> None:
    program = make_filter(alone_as=alone_as, is_permissive=False, has_driver=True)
    answer = interpret(program, number, [*arguments, 0, 0, 0, 0, 0][:6])
    assert (answer == ALLOW) is is_allowed


def test_a_sandbox_that_cannot_be_built_says_why() -> None:
    broken = replace(sandbox_of(Tier.NAMESPACES), tier=Tier.NAMESPACES)
    cell = Confinement(broken, View(("/usr",)), ProcessLimits(scratch_bytes=1), "/nonexistent")
    read, write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            enter(cell, parent)
        except OSError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    assert select.select([read], [], [], 60)[0]
    assert "nonexistent" in os.read(read, 4096).decode() or os.geteuid() != 0
    os.close(read)
    os.waitpid(pid, 0)
