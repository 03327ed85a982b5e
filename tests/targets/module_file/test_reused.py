"""Large outputs lie in memory of earlier ones that nothing refers to any more."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from kernelwright.targets.module_file.shared_source import LARGE_BYTES, REUSED

SHAPE, STRIDE = (LARGE_BYTES // 4096, 1024), (1024, 1)


@pytest.fixture
def given() -> dict[str, Callable[..., torch.Tensor]]:
    namespace = {"torch": torch}
    exec(REUSED, namespace)
    return namespace


@pytest.fixture
def reused(given: dict[str, Callable[..., torch.Tensor]]) -> Callable[[], torch.Tensor]:
    return lambda: given["_reused"](SHAPE, STRIDE, torch.float32)


def test_memory_that_nobody_has_is_used_again(reused: Callable[[], torch.Tensor]) -> None:
    first = reused()
    address = first.data_ptr()
    assert first.shape == SHAPE and first.stride() == STRIDE and first.is_contiguous()
    del first
    assert reused().data_ptr() == address


@pytest.mark.parametrize(
    "keep",
    [
        lambda tensor: tensor,
        lambda tensor: tensor[5:].T,
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.untyped_storage(),
        lambda tensor: (tensor.requires_grad_() ** 2).sum(),
        lambda tensor: torch.utils.dlpack.to_dlpack(tensor),
    ],
    ids=["itself", "view", "numpy", "storage", "graph of gradients", "dlpack"],
)
def test_memory_that_somebody_has_is_not(
    reused: Callable[[], torch.Tensor], keep: Callable[[torch.Tensor], object]
) -> None:
    first = reused()
    address, kept = first.data_ptr(), keep(first)
    del first
    others = [reused() for _ in range(4)]
    assert address not in {other.data_ptr() for other in others}
    assert len({other.data_ptr() for other in others}) == 4
    assert kept is not None


def test_memory_that_other_processes_may_have_is_not(reused: Callable[[], torch.Tensor]) -> None:
    first = reused()
    first.share_memory_()
    del first
    assert not reused().is_shared()


def test_an_output_that_was_made_smaller_or_larger_is_not_given_out(
    reused: Callable[[], torch.Tensor],
) -> None:
    first = reused()
    first.untyped_storage().resize_(16)
    del first
    assert reused().untyped_storage().nbytes() >= LARGE_BYTES


def test_few_blocks_stay_when_many_are_dropped(
    given: dict[str, Callable[..., torch.Tensor]], reused: Callable[[], torch.Tensor]
) -> None:
    many = [reused() for _ in range(8)]
    assert len({one.data_ptr() for one in many}) == 8
    del many
    assert len(given["_given_out"]) <= 4  # type: ignore[arg-type]


def test_small_tensors_are_left_to_torch(given: dict[str, Callable[..., torch.Tensor]]) -> None:
    assert given["_reused"]((4, 2), (1, 4), torch.int64).stride() == (1, 4)
    assert not given["_given_out"]


@pytest.mark.parametrize("offset", [-1, 0, 1, 5])
def test_how_references_are_counted_is_measured(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda thing: count(thing) + offset)
    namespace: dict[str, Any] = {"torch": torch}
    exec(REUSED, namespace)
    reused = partial(namespace["_reused"], SHAPE, STRIDE, torch.float32)
    first = reused()
    address, kept = first.data_ptr(), first.untyped_storage()
    del first
    assert reused().data_ptr() != address
    del kept
    assert address in {one.data_ptr() for one in [reused() for _ in range(4)]}


def test_nothing_is_reused_where_references_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getrefcount", lambda thing: 2)
    namespace: dict[str, Any] = {"torch": torch}
    exec(REUSED, namespace)
    namespace["_reused"](SHAPE, STRIDE, torch.float32)
    assert not namespace["_given_out"]


def test_threads_never_get_the_same_memory(reused: Callable[[], torch.Tensor]) -> None:
    clashes, barrier = [], threading.Barrier(4)

    def work(value: int) -> None:
        for _ in range(30):
            barrier.wait()
            mine = reused()[:1]
            mine.fill_(value)
            barrier.wait()
            clashes.extend([value] if not bool((mine == value).all()) else [])
            del mine

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
