"""What a call returned, as the loop noted it: form, addresses, and the bytes behind them."""

import ctypes
import errno
import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelwright.referee.session.shared_memory import ITEM_BYTES, address_of
from kernelwright.referee.worker.wire import Message

DTYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    9: "complex64", 10: "complex128", 11: "bool", 15: "bfloat16", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
"""Torch's number of a dtype -> its name."""
DEVICES = {0: "cpu", 1: "cuda", 6: "hip", 14: "meta"}
TENSOR, UNREADABLE = 1, 2
MOST_OUTPUTS = 32
SPAN_BYTES = 1 << 28
"""An output whose elements are spread over more memory than this, and over more than 16 times their own
bytes, is not read: the memory between them would have to be read, too."""
MOST_SPOILT = 1 << 13
"""Elements of an output that are written to at a time: a power of two up to this one."""
SPOILING = range(0x3F, 0x45)
"""Bytes that elements are then filled with: as floats they are finite, and not near zero."""
_libc = ctypes.CDLL(None, use_errno=True)


class Unreadable(Exception):
    """Memory of a process that cannot be read from outside, or not written to."""


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("len", ctypes.c_size_t))


Range = tuple[str, int, int]
"""Name, first byte, number of bytes."""


def describe(record: Any, owned: Iterable[Range] = ()) -> Message:
    """Return the form of a call's outputs, and which of the ``owned`` memories each shares."""
    count = int(record["n_outputs"])
    outputs = [_output(one, owned) for one in record["outputs"][: min(count, MOST_OUTPUTS)]]
    outputs += [{"type": "output"}] * (count - len(outputs) if count < 1 << 16 else 1)
    return {"is_tuple": bool(record["is_tuple"]), "outputs": outputs, "overlaps": _overlaps(record)}


def _overlaps(record: Any) -> list[tuple[int, int]]:
    """Return the pairs of a call's outputs whose elements lie between those of each other."""
    outputs = record["outputs"][: min(int(record["n_outputs"]), MOST_OUTPUTS)]
    spans = [(i, *_span_of(one)) for i, one in enumerate(outputs) if one["kind"] == TENSOR]
    pairs = itertools.combinations(spans, 2)
    return [(i, j) for (i, begin, end), (j, first, last) in pairs if begin < last and first < end]


def _span_of(one: Any) -> tuple[int, int]:
    """Return first byte and end of the elements of an output."""
    n_axes = min(max(int(one["ndim"]), 0), one["size"].size)
    shape, stride = one["size"][:n_axes].tolist(), one["stride"][:n_axes].tolist()
    begin = int(one["data"])
    if math.prod(shape) == 0:
        return begin, begin
    last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    return begin, begin + (last + 1) * ITEM_BYTES.get(DTYPES.get(int(one["dtype"]), ""), 1)


def _output(one: Any, owned: Iterable[Range]) -> Message:
    if one["kind"] != TENSOR:
        name = one["size"].tobytes().split(b"\0")[0].decode(errors="replace")
        return {"type": "a tensor without plain memory" if one["kind"] == UNREADABLE else name}
    n_axes = min(max(int(one["ndim"]), 0), one["size"].size)
    shape, stride = one["size"][:n_axes].tolist(), one["stride"][:n_axes].tolist()
    dtype = DTYPES.get(int(one["dtype"]), f"dtype {one['dtype']}")
    begin, size = memory_of(one)
    shared = [name for name, there, room in owned if size and there < begin + size and begin < there + room]
    return {
        "type": "torch.Tensor",
        "device": DEVICES.get(int(one["device"]), f"device {one['device']}"),
        "dtype": dtype,
        "shape": shape,
        "layout": "torch.strided",
        "is_dense": is_dense(shape, stride),
        "shares": shared[:1],
    }


def memory_of(one: Any) -> tuple[int, int]:
    """Return first byte and size of the storage of an output."""
    item = ITEM_BYTES.get(DTYPES.get(int(one["dtype"]), ""), 1)
    return int(one["data"]) - int(one["offset"]) * item, int(one["storage_bytes"])


def ranges_of(record: Any, name: str) -> list[Range]:
    """Return the memories of a call's outputs."""
    outputs = record["outputs"][: min(int(record["n_outputs"]), MOST_OUTPUTS)]
    return [(name, *memory_of(one)) for one in outputs if one["kind"] == TENSOR]


def argument_ranges(record: Any) -> list[Range]:
    """Return the memories of a call's arguments."""
    pairs = record["args"][: min(int(record["n_args"]), len(record["args"]))].tolist()
    return [(f"input {i}", begin, size) for i, (begin, size) in enumerate(pairs)]


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """True when no two elements share memory and there are no gaps between elements."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size == 1:
            continue
        if step != expected:
            return False
        expected *= size
    return True


def read_output(pid: int, one: Any, into: npt.NDArray[np.uint8]) -> None:
    """Copy an output, row-major, from the memory of a process; its form has been checked.

    Raises:
        Unreadable: the memory is not there, or not readable.
    """
    n_axes = int(one["ndim"])
    shape, stride = one["size"][:n_axes].tolist(), one["stride"][:n_axes].tolist()
    if math.prod(shape) == 0:
        return
    item = ITEM_BYTES[DTYPES[int(one["dtype"])]]
    last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if min(stride, default=0) < 0 or (last + 1) * item > int(one["storage_bytes"]):
        raise Unreadable("its elements lie outside its storage")
    if stride == [math.prod(shape[i + 1 :]) for i in range(n_axes)]:
        read_memory(pid, int(one["data"]), into)
        return
    n_bytes = (last + 1) * item
    if n_bytes > max(SPAN_BYTES, 16 * into.size):
        raise Unreadable(f"its elements are spread over {n_bytes >> 20} MiB")
    span = np.empty(n_bytes, np.uint8)
    read_memory(pid, int(one["data"]), span)
    word = np.dtype(f"V{item}")
    steps = [step * item if n > 1 else 0 for n, step in zip(shape, stride, strict=True)]
    view = np.lib.stride_tricks.as_strided(span.view(word), shape, steps)
    into.view(word).reshape(shape)[...] = view


def resolve(raw: npt.NDArray[np.uint8], dtype: str, *, is_conjugated: bool, is_negated: bool) -> None:
    """Carry out what torch puts off for a complex output: both are bits of a tensor, not in its bytes."""
    parts = raw.view(np.float32 if dtype == "complex64" else np.float64).reshape(-1, 2)
    for part, is_other in ((parts[:, 0], is_negated), (parts[:, 1], is_negated != is_conjugated)):
        if is_other:
            np.negative(part, out=part)


def read_memory(pid: int, address: int, into: npt.NDArray[np.uint8]) -> None:
    """Fill an array with the bytes at an address of another process; raises Unreadable."""
    _copy(_libc.process_vm_readv, pid, address, into)


def write_memory(pid: int, address: int, values: npt.NDArray[np.uint8]) -> None:
    """Write bytes at an address of another process; raises Unreadable."""
    _copy(_libc.process_vm_writev, pid, address, values)


def _copy(copy: Callable[..., int], pid: int, address: int, own: npt.NDArray[np.uint8]) -> None:
    done = 0
    while done < own.size:
        local = _Piece(address_of(own) + done, own.size - done)
        remote = _Piece(address + done, own.size - done)
        n = copy(
            pid, ctypes.byref(local), ctypes.c_ulong(1), ctypes.byref(remote), ctypes.c_ulong(1),
            ctypes.c_ulong(0),
        )  # fmt: skip
        if n <= 0:
            code = ctypes.get_errno() or errno.EFAULT
            raise Unreadable(os.strerror(code))
        done += n


def spoil_output(pid: int, one: Any, rng: random.Random) -> None:
    """Write to some elements of an output in the memory of a process; its form has been checked.

    One element, or up to ``MOST_SPOILT`` in a row where none lies between them that is not the output's.
    Raises Unreadable.
    """
    n_axes = int(one["ndim"])
    shape, stride = one["size"][:n_axes].tolist(), one["stride"][:n_axes].tolist()
    count = math.prod(shape)
    if count == 0:
        return
    item = ITEM_BYTES[DTYPES[int(one["dtype"])]]
    if is_dense(shape, stride):
        length = min(count, 1 << rng.randrange(MOST_SPOILT.bit_length()))
        at = rng.randrange(count - length + 1)
    else:
        length, at = 1, sum(rng.randrange(n) * step for n, step in zip(shape, stride, strict=True))
    write_memory(pid, int(one["data"]) + at * item, np.full(length * item, rng.choice(SPOILING), np.uint8))


def can_read(pid: int, address: int) -> bool:
    """True when the system lets this process read memory of another one."""
    try:
        read_memory(pid, address, np.empty(8, np.uint8))
    except Unreadable:
        return False
    return True
