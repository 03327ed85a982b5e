"""A filter of system calls, written as BPF instructions without a library.

The filter lists the refused calls and allows all others: the calls that a compiler, OpenMP and torch need
differ from version to version, the calls that they never need do not.
"""

import ctypes
import platform
import signal
import struct
from typing import Final

from kernelwright.referee.sandbox.calls import MACHINES, forbid_new_privileges, system_call

_EPERM, _EACCES, _ENOSYS, _ECONNREFUSED = 1, 13, 38, 111
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32 = 0x40000000
_AUDIT_MACHINE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_SET_MODE_FILTER = 1
_NO_STORE_BYPASS_MITIGATION = 4
"""Without this flag some kernels slow down every store of the filtered process."""

REFUSED: Final = {
    # Other processes' memory and descriptors.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    # Namespaces, mounts, roots.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # Large parts of the operating system's kernel that candidates never need.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "fanotify_init": (300, 262), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    # Memory that no limit counts.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # Signals that the kernel sends by itself, SIGCONT too: what has been stopped would go on.
    "timer_create": (222, 107),
    # The machine.
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "iopl": (172, -1), "ioperm": (173, -1),
    "modify_ldt": (154, -1), "vhangup": (153, 58), "syslog": (103, 116), "sethostname": (170, 161),
    "setdomainname": (171, 162), "uselib": (134, -1), "_sysctl": (156, -1),
    # Changing the user: a process may have kept another user id to return to.
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159),
    "setfsuid": (122, 151), "setfsgid": (123, 152),
}  # fmt: skip
"""Name -> number on x86-64 and aarch64 (-1: not there)."""
_ABSENT: Final = ("io_uring", "timer_create")
"""Calls that the kernel seems to lack: programs then do without, as ``timeout`` does."""
FOR_DRIVERS: Final = ("memfd_create",)
"""Calls of this list that a GPU's driver needs to start."""

_PROCESS_CALLS: Final = {
    # name: numbers, place of the process among the arguments
    "kill": ((62, 129), 0), "tgkill": ((234, 131), 0), "rt_sigqueueinfo": ((129, 138), 0),
    "rt_tgsigqueueinfo": ((297, 240), 0), "prlimit64": ((302, 261), 0),
    "sched_setaffinity": ((203, 122), 0), "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0), "sched_setattr": ((314, 274), 0),
    "setpriority": ((141, 140), 1), "ioprio_set": ((251, 30), 1),
    "migrate_pages": ((256, 238), 0), "move_pages": ((279, 239), 0),
}  # fmt: skip
"""Calls that act on another process of the same user; refused where other processes are visible."""

_CLONE, _CLONE3, _SOCKET, _SOCKET_PAIR, _CONNECT = (56, 220), (435, 435), (41, 198), (53, 199), (42, 203)
_IOCTL, _PRCTL, _TKILL, _FCNTL = (16, 29), (157, 167), (200, 130), (72, 25)
_SIGNAL_ACTION = (13, 134)
_NEW_NAMESPACES = 0x7E020000
_UNIX = 1
_STREAM, _PACKETS = 1, 5
_KIND_BITS = 0xF
"""Bits of a socket's type that hold its kind; the others are flags of its descriptor. Datagram sockets are
refused: a process could send to another program's socket by address, in a call that no filter can examine."""
_PUSH_INPUT, _CONSOLE = 0x5412, 0x541C
"""ioctls that type into the user's terminal."""
_SET_DEATH_SIGNAL = 1
_SIGNAL_OWNERS = (8, 10, 15)
"""fcntl's F_SETOWN, F_SETSIG, F_SETOWN_EX: they direct a descriptor's signals, SIGCONT too, to a process."""


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


class _Program:
    """A list of BPF instructions; a permissive one has the same steps but refuses nothing."""

    def __init__(self, column: int, *, is_permissive: bool) -> None:
        self._column, self._is_permissive = column, is_permissive
        self.steps: list[bytes] = []

    def answer(self, errno: int) -> bytes:
        return _step(_RETURN, _ALLOW if self._is_permissive else _ERRNO | errno)

    def refuse(self, numbers: tuple[int, int], errno: int = _EPERM) -> None:
        """Refuse a call with any arguments."""
        if numbers[self._column] >= 0:
            self.steps += [_step(_EQUAL, numbers[self._column], 0, 1), self.answer(errno)]

    def refuse_if(
        self, numbers: tuple[int, int], argument: int, tests: tuple[tuple[int, int], ...], errno: int = _EPERM
    ) -> None:
        """Refuse a call when one of the tests (instruction, value) holds for the argument's low half."""
        block = [_load_argument(argument)]
        for i, (code, value) in enumerate(tests):
            block.append(_step(code, value, len(tests) - i, 0))
        block += [_step(_RETURN, _ALLOW), self.answer(errno)]
        self._skip_unless(numbers, block)

    def allow_only(
        self, numbers: tuple[int, int], argument: int, values: tuple[int, ...], errno: int = _EPERM
    ) -> None:
        """Refuse a call unless the argument's low half is one of the values."""
        block = [_load_argument(argument)]
        for i, value in enumerate(values):
            block.append(_step(_EQUAL, value, len(values) - i, 0))
        block += [self.answer(errno), _step(_RETURN, _ALLOW)]
        self._skip_unless(numbers, block)

    def demand(
        self, numbers: tuple[int, int], argument: int, values: tuple[int, ...], *, bits: int = 0xFFFFFFFF
    ) -> None:
        """Refuse a call unless some bits of the argument equal one of the values; then go on filtering."""
        block = [_load_argument(argument), _step(_AND, bits)]
        for i, value in enumerate(values):
            block.append(_step(_EQUAL, value, len(values) - i, 0))
        block += [self.answer(_EACCES), _step(_LOAD, _NUMBER_AT)]
        self._skip_unless(numbers, block)

    def _skip_unless(self, numbers: tuple[int, int], block: list[bytes]) -> None:
        self.steps += [_step(_EQUAL, numbers[self._column], 0, len(block)), *block]


def _load_argument(index: int) -> bytes:
    return _step(_LOAD, _FIRST_ARGUMENT_AT + 8 * index)


def make_filter(*, alone_as: int | None, is_permissive: bool, has_driver: bool = False) -> bytes:
    """Return the filter as a BPF program.

    Args:
        alone_as: the process's id where it shares a process table with others. The filter then allows it to
            act on itself and its group only. None where it sees only its own processes.
        is_permissive: make the same program step by step, but refuse nothing. For processes whose time is
            compared with that of filtered ones.
        has_driver: allow what a GPU's driver does when it starts: memfds, and a local socket to listen on.
            Where other processes are visible, connecting to any socket is refused.
    """
    machine = platform.machine()
    program = _Program(MACHINES[machine], is_permissive=is_permissive)
    steps = program.steps
    steps += [_step(_LOAD, _MACHINE_AT), _step(_EQUAL, _AUDIT_MACHINE[machine], 1, 0)]
    steps += [_step(_RETURN, _KILL), _step(_LOAD, _NUMBER_AT)]
    if machine == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERRNO | _ENOSYS)]
    for name, numbers in REFUSED.items():
        if has_driver and name in FOR_DRIVERS:
            continue
        program.refuse(numbers, _ENOSYS if name.startswith(_ABSENT) else _EPERM)
    program.refuse(_CLONE3, _ENOSYS)  # a filter cannot read its flags in memory; libc falls back to clone
    program.refuse_if(_CLONE, 0, ((_ANY_BIT, _NEW_NAMESPACES),))
    if not has_driver:
        program.refuse(_SOCKET, _EACCES)
    elif alone_as is not None:
        program.refuse(_CONNECT, _ECONNREFUSED)
    for numbers in (_SOCKET_PAIR, *((_SOCKET,) if has_driver else ())):
        program.demand(numbers, 0, (_UNIX,))
        program.demand(numbers, 1, (_STREAM, _PACKETS), bits=_KIND_BITS)
    program.refuse_if(_IOCTL, 1, ((_EQUAL, _PUSH_INPUT), (_EQUAL, _CONSOLE)))
    program.refuse_if(_PRCTL, 0, ((_EQUAL, _SET_DEATH_SIGNAL),))
    # The time of a child is lost to every account when its parent ignores SIGCHLD. The call has no effect and
    # seems to succeed: ninja, which honest candidates build with, sets a handler that it can do without.
    program.refuse_if(_SIGNAL_ACTION, 0, ((_EQUAL, signal.SIGCHLD),), errno=0)
    program.refuse_if(_FCNTL, 1, tuple((_EQUAL, command) for command in _SIGNAL_OWNERS))
    if alone_as is not None:
        program.refuse(_TKILL)
        for numbers, place in _PROCESS_CALLS.values():
            program.allow_only(numbers, place, (0, alone_as))
    steps.append(_step(_RETURN, _ALLOW))
    return b"".join(steps)


def install(program: bytes) -> None:
    """Filter this process and its descendants, for good; raises OSError where the kernel cannot."""
    forbid_new_privileges()
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    block = ctypes.create_string_buffer(header, len(header))
    system_call("seccomp", _SET_MODE_FILTER, _NO_STORE_BYPASS_MITIGATION, ctypes.byref(block))
