"""Tensors in memory of their own: copied there and back, poisoned, with the driver past torch."""

import ctypes
import subprocess
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn

from kernelwright.referee.device import parse_device
from kernelwright.referee.host.main import Host
from kernelwright.referee.session.shared_memory import SharedMemory, place
from kernelwright.referee.worker.call_loop import CallLoop
from kernelwright.referee.worker.driver import Cuda, DriverError
from kernelwright.referee.worker.placement import (
    PRECISION,
    Bystander,
    DevicePlacement,
    Placement,
    use_tf32,
)
from kernelwright.referee.worker.tensors import Arena

SPECS = [("float32", (5, 7)), ("int64", (3,)), ("bool", (2, 2)), ("float32", (0, 4)), ("bfloat16", (9,))]

STUB = r"""
#include <cstdio>
#include <cstring>
#include <string>
static std::string told;
static int depth = 0, current = 0, limit = 0, events = 0, fails = 0;
static int say(const char* what) { told += what; told += depth ? "" : "(outside)"; told += " "; return 0; }
extern "C" {
const char* stub_told() { return told.c_str(); }
void stub_forget() { told.clear(); }
void stub_limit(int n) { limit = n; }
void stub_fail(int code) { fails = code; }
int stub_depth() { return depth; }
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int) { *device = 7; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(long)(device * 3); return 0; }
int cuCtxPushCurrent_v2(void* context) { if ((long)context != 21) return 1; depth++; return 0; }
int cuCtxPopCurrent_v2(void** context) { *context = (void*)21; depth--; return 0; }
int cuCtxSynchronize() { say("wait"); return fails; }
int cuCtxSetLimit(int which, size_t n) { if (which != 6) return 1; limit = (int)n; return say("limit"); }
int cuCtxGetLimit(size_t* n, int which) { if (which != 6) return 1; *n = limit; return 0; }
int cuCtxResetPersistingL2Cache() { return say("reset"); }
int cuEventCreate(void** event, unsigned) { *event = (void*)(long)++events; return say("create"); }
int cuEventRecord(void* event, void* stream) { return stream ? 1 : say("record"); }
int cuEventSynchronize(void*) { return say("await"); }
int cuEventElapsedTime(float* ms, void* a, void* b) {
  *ms = 2.5f * ((long)b - (long)a);
  return say("between");
}
int cuEventDestroy_v2(void*) { return say("destroy"); }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void* stream) {
  std::memcpy((void*)to, (void*)from, n);
  return stream ? 1 : say("copy");
}
int cuGetErrorName(int code, const char** name) {
  *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : 0;
  return 0;
}
}
"""


def arena_of(memory: SharedMemory) -> Arena:
    return Arena(memory.fd, memory.size)


@pytest.fixture
def placement() -> DevicePlacement:
    return DevicePlacement("cpu", Bystander())


def bound(placement: Placement, memory: SharedMemory) -> list[torch.Tensor]:
    slots, _ = place(SPECS)
    value = placement.bind("set", {"list": [{"tensor": slot} for slot in slots]}, arena_of(memory))
    assert isinstance(value, list)
    return value


def memory_for(specs: list[tuple[str, tuple[int, ...]]]) -> SharedMemory:
    return SharedMemory(place(specs)[1])


def test_in_shared_memory_an_argument_is_the_memory_itself() -> None:
    memory = memory_for(SPECS)
    first, *_ = bound(Placement(), memory)
    memory.bytes[:] = 0
    first.fill_(1.0)
    assert memory.bytes[: 4 * 35].any()


def test_on_a_device_an_argument_changes_only_when_it_is_uploaded(placement: DevicePlacement) -> None:
    memory = memory_for(SPECS)
    tensors = bound(placement, memory)
    assert [(str(t.dtype).removeprefix("torch."), tuple(t.shape)) for t in tensors] == SPECS
    memory.bytes[:] = 1
    assert not any(bool(t.any()) for t in tensors if t.numel())
    pointers = [t.data_ptr() for t in tensors]
    placement.upload(["set"])
    assert tensors[1].tolist() == [0x0101010101010101] * 3
    assert [t.data_ptr() for t in tensors] == pointers


def test_tensors_on_a_device_share_nothing_and_begin_their_memory(placement: DevicePlacement) -> None:
    tensors = [t for t in bound(placement, memory_for(SPECS)) if t.numel()]
    assert len({t.untyped_storage().data_ptr() for t in tensors}) == len(tensors)
    assert all(t.storage_offset() == 0 and not t._is_view() for t in tensors)


def test_lanes_of_a_set_are_brought_up_to_date_from_the_first(placement: DevicePlacement) -> None:
    memory = memory_for(SPECS)
    slots, _ = place(SPECS)
    value = {"list": [{"tensor": slot} for slot in slots]}
    lanes = {name: placement.bind(name, value, arena_of(memory)) for name in ("set", "set:1", "set:2")}
    apart = placement.bind("part", {"tensor": slots[0]}, arena_of(memory), 0, 4096)
    memory.bytes[:] = 1
    placement.upload([*lanes, "part"])
    assert len({lane[1].data_ptr() for lane in lanes.values()}) == 3
    assert all(lane[1].tolist() == [0x0101010101010101] * 3 for lane in lanes.values())
    assert bool((apart.view(torch.int32) == 0x01010101).all())


class Small(DevicePlacement):
    """A device that holds ``room`` bytes of poisoned blocks."""

    def __init__(self, room: int) -> None:
        super().__init__("cpu", Bystander())
        self.room, self.blocks, self.n_released = room, list[int](), 0

    def _block(self, size: int) -> torch.Tensor:
        if sum(self.blocks) + size > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.blocks.append(size)
        return super()._block(size)

    def release(self) -> None:
        self.blocks.clear()
        self.n_released += 1


@pytest.mark.parametrize(
    ("room", "poisoned", "n_released"), [(1200, [100] * 4 + [200] * 4, 0), (500, [100, 200], 1), (150, [], 2)]
)
def test_too_little_memory_for_poison_is_no_error(room: int, poisoned: list[int], n_released: int) -> None:
    small = Small(room)
    small.poison([100, 200])
    assert (small.blocks, small.n_released) == (poisoned, n_released)


class Choosy(nn.Module):
    """Cannot be called in float64 the first times."""

    n_refused = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if Choosy.n_refused > 0:
            Choosy.n_refused -= 1
            raise RuntimeError(f"cuDNN does not have that, {Choosy.n_refused} left")
        return x * 2


@pytest.mark.parametrize(("n_refused", "words"), [(0, None), (1, None), (2, "1 left")])
def test_what_a_device_does_not_do_in_float64_the_processor_does(n_refused: int, words: str | None) -> None:
    host = Host(cast(CallLoop, None))  # nothing is called from its loop
    host.placement = DevicePlacement("cpu", Bystander())
    host.placement.is_on_gpu = True  # as one of a GPU says
    host.model, Choosy.n_refused = Choosy(), n_refused
    if words is None:
        _, value = host._in_double([torch.ones(2)])
        assert value.dtype is torch.float64 and value.tolist() == [2, 2]
        return
    with pytest.raises(RuntimeError, match=words):
        host._in_double([torch.ones(2)])


def test_a_switch_that_this_torch_does_not_have_is_told_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch._C, "_get_cublas_allow_tf32")
    read = DevicePlacement("cpu", Bystander()).switches()["TF32 in products"]
    assert "_get_cublas_allow_tf32" in read() and read() == read()


def test_what_is_written_beyond_a_tensor_comes_back_too(placement: DevicePlacement) -> None:
    memory = memory_for(SPECS)
    memory.bytes[:] = 0xFF
    first, *_ = bound(placement, memory)
    placement.upload(["set"])
    before = SharedMemory(memory.size)
    before.copy_from(memory)
    beyond = first.as_strided((36,), (1,))
    beyond[35] = 3.0
    memory.bytes[:] = 0x5A
    placement.download("set")
    assert not memory.equals(before)
    assert int((memory.bytes != before.bytes).sum()) <= 4


def test_a_set_without_tensors_comes_back_whole(placement: DevicePlacement) -> None:
    memory = SharedMemory(1)
    memory.bytes[:] = 0xFF
    assert placement.bind("set", {"list": [1, "a"]}, arena_of(memory)) == [1, "a"]
    memory.bytes[:] = 0x5A
    placement.download("set")
    assert (memory.bytes == 0xFF).all()


def test_a_part_of_an_arena_is_all_that_a_set_of_it_touches(placement: DevicePlacement) -> None:
    memory = SharedMemory(3 * 4096)
    memory.bytes[:] = 0
    slot = {"dtype": "float32", "shape": [4], "stride": [1], "offset": 4096}
    value = placement.bind("set", {"tensor": slot}, arena_of(memory), 4096, 8192)
    value.fill_(1.0)
    placement.download("set")
    assert not memory.bytes[:4096].any() and not memory.bytes[8192:].any() and memory.bytes[4096:4112].any()


def test_switches_for_precision_are_seen_whichever_way_they_are_set() -> None:
    before = {name: read() for name, read in DevicePlacement("cpu", Bystander()).switches().items()}
    assert set(PRECISION) <= set(before)
    was_tf32 = torch._C._get_cudnn_allow_tf32()
    try:
        use_tf32(not was_tf32)
        after = {name: read() for name, read in DevicePlacement("cpu", Bystander()).switches().items()}
        assert after["TF32 in cuDNN"] != before["TF32 in cuDNN"]
        torch.backends.cudnn.benchmark = True
        reader = DevicePlacement("cpu", Bystander()).switches()["the choice of cuDNN's algorithms"]
        assert reader() is True
    finally:
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = was_tf32


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver that only tells what it was asked."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "stub.cpp").write_text(STUB, encoding="utf-8")
    built = folder / "libstub.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-o", str(built), str(folder / "stub.cpp")], check=True, timeout=60
    )
    return built


class Stub:
    """The stand-in for libcuda, and our side of it."""

    def __init__(self, library: Path) -> None:
        self.cuda = Cuda(str(library))
        self._lib = ctypes.CDLL(str(library))
        self._lib.stub_told.restype = ctypes.c_char_p
        self.set_limit, self.fail, self.depth = (
            self._lib.stub_limit,
            self._lib.stub_fail,
            self._lib.stub_depth,
        )
        self._lib.stub_forget()

    def told(self) -> list[str]:
        words = self._lib.stub_told().decode().split()
        self._lib.stub_forget()
        return list(words)


@pytest.fixture
def stub(library: Path) -> Stub:
    return Stub(library)


def test_the_driver_is_called_in_the_context_that_torch_uses(stub: Stub) -> None:
    stub.cuda.synchronise()
    first = stub.cuda.mark()
    second = stub.cuda.mark()
    assert stub.cuda.between(first, second) == pytest.approx(2.5e6)
    assert stub.told() == [
        "wait", "create", "record", "create", "record", "await", "between", "destroy", "destroy",
    ]  # fmt: skip
    assert stub.depth() == 0


def test_memory_is_copied_in_the_order_of_the_default_stream(stub: Stub) -> None:
    there, here = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    stub.cuda.copy(here.data_ptr(), there.data_ptr(), 24)
    assert here.tolist() == [0, 1, 2, 0, 0] and stub.told() == ["copy"] and stub.depth() == 0


def test_what_is_set_aside_in_the_cache_is_given_back_and_remembered(stub: Stub) -> None:
    stub.cuda.settle()
    assert stub.told() == ["wait"] and stub.cuda.set_aside() == 0
    stub.set_limit(64)
    stub.cuda.settle()
    assert stub.told() == ["wait", "limit", "reset"]
    assert stub.cuda.set_aside() == 64


def test_an_error_of_the_device_is_named_and_leaves_its_context(stub: Stub) -> None:
    stub.fail(700)
    try:
        with pytest.raises(DriverError, match="cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"):
            stub.cuda.synchronise()
        stub.fail(3)
        with pytest.raises(DriverError, match="cuCtxSynchronize: error 3"):
            stub.cuda.synchronise()
    finally:
        stub.fail(0)
    assert stub.depth() == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")
def test_on_a_gpu_the_allocator_hands_out_what_was_poisoned() -> None:
    from kernelwright.referee.worker.placement import place as place_here

    placement, facts = place_here(parse_device("hip" if torch.version.hip else "cuda").placing())
    assert facts["free_bytes"] > 0
    placement.poison([4096, 1 << 22])
    for size in (1024, 1 << 20):
        assert bool(torch.empty(size, device=placement.device).isnan().all())
    first = placement.mark()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
    second = placement.mark()
    assert not side.query()
    placement.synchronise()
    assert side.query()
    assert 0 <= placement.between(first, second)["device_ns"] < 1e9
