from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.core.roofline import Work
from kernelwright.tasks.capture import capture_module
from kernelwright.tasks.work import count_work


class Plain(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def work_of(module: nn.Module | Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Work:
    return count_work(capture_module(module if isinstance(module, nn.Module) else Plain(module), inputs))


N = 64
SQUARE, OTHER = torch.randn(N, N), torch.randn(N, N)
BYTES = N * N * 4


@pytest.mark.parametrize(
    ("function", "n_tensors"),
    [
        (lambda a, b: torch.relu(a), 2),
        (lambda a, b: torch.tanh(a) * b, 3),
        (lambda a, b: a.t(), 0),
        (lambda a, b: (a + b)[:, : N // 2], 1.5),
        (lambda a, b: torch.cat([a[:, : N // 2] * 2, a[:, N // 2 :]], 1), 2),
        (lambda a, b: F.pad(a, (-N // 2, 0)) + 1, 1),
        (lambda a, b: torch.zeros_like(a) + b, 2),
        (lambda a, b: torch.stack([c.sin() for c in a.chunk(2)]), 2),
    ],
)
def test_bytes_are_what_is_looked_at_and_written(
    function: Callable[..., torch.Tensor], n_tensors: float
) -> None:
    assert work_of(function, SQUARE, OTHER).min_bytes == pytest.approx(n_tensors * BYTES)


def test_a_mask_halves_what_is_read() -> None:
    work = work_of(lambda a: torch.tril(a).exp(), SQUARE)
    assert work.min_bytes == pytest.approx(BYTES * (1 + (N + 1) / (2 * N)))


def test_rows_picked_by_an_index_count_only_as_output() -> None:
    rows = torch.randint(0, 1000, (N,))
    work = work_of(nn.Embedding(1000, 16), rows)
    assert work.min_bytes == N * 8 + N * 16 * 4


def test_a_cross_entropy_reads_all_logits() -> None:
    work = work_of(lambda x, y: F.cross_entropy(x, y), torch.randn(N, 32), torch.randint(0, 32, (N,)))
    assert work.min_bytes == N * 32 * 4 + N * 8 + 4


def test_a_strided_pointwise_convolution_reads_every_fourth_pixel() -> None:
    conv = nn.Conv2d(4, 4, 1, stride=2, bias=False)
    assert work_of(conv, torch.randn(2, 4, 8, 8)).min_bytes == (2 * 4 * 16) * 4 * 2 + 16 * 4


def test_running_statistics_are_read_and_written() -> None:
    norm = nn.BatchNorm1d(8, affine=False)
    assert work_of(norm, torch.randn(32, 8)).min_bytes == 2 * 32 * 8 * 4 + 2 * (8 * 4 * 2) + 2 * 8


@pytest.mark.parametrize(
    ("function", "share"),
    [
        (lambda a, b: a @ b, 1.0),
        (lambda a, b: torch.relu(a @ b).sum(), 1.0),
        (lambda a, b: (a @ b + 1).sum(1), 0.0),
        (lambda a, b: a @ a.t(), 0.5),
        (lambda a, b: torch.tril(a) @ b, 0.5 + 0.5 / N),
        (lambda a, b: (a @ b)[: N // 4], 0.25),
        (lambda a, b: (a @ b) @ b, 1.0),
        (lambda a, b: torch.relu(a @ b) @ b, 2.0),
        (lambda a, b: torch.relu(a @ b) + torch.relu(a @ b), 1.0),
        (lambda a, b: torch.diag(a[0]) @ b, 1.0 / N),
        (lambda a, b: a @ torch.ones(N, N), 0.0),
    ],
)
def test_products_count_where_algebra_leaves_them(
    function: Callable[..., torch.Tensor], share: float
) -> None:
    flops = work_of(function, SQUARE, OTHER).flops
    assert 0 <= flops - share * 2 * N**3 <= 2 * N * N


def test_a_triangular_product_counts_less_than_its_sixth() -> None:
    work = work_of(lambda a, b: torch.tril(torch.tril(a) @ torch.tril(b)), SQUARE, OTHER)
    assert 0 < work.flops <= 2 * N**3 / 6


def test_two_linear_layers_count_as_one_of_the_smaller_width() -> None:
    work = work_of(nn.Sequential(nn.Linear(16, 256), nn.Linear(256, 64)), torch.randn(128, 16))
    assert work.flops == pytest.approx(2 * 128 * 16 * 64 + 128 * 16)


def test_a_linear_layer_before_a_mean_leaves_no_weights_to_read() -> None:
    work = work_of(Plain(nn.Linear(256, 256)), torch.randn(8, 256))
    collapsed = work_of(nn.Sequential(nn.Linear(256, 256), nn.AvgPool1d(256)), torch.randn(8, 256))
    assert collapsed.min_bytes < 12_000 < 256 * 256 * 4 < work.min_bytes


@pytest.mark.parametrize(("kernel", "gain"), [(1, 1.0), (3, 4.0)])
def test_convolutions_count_what_fast_algorithms_leave(kernel: int, gain: float) -> None:
    conv = nn.Conv2d(8, 8, kernel, bias=False)
    n_out = 18 - kernel
    work = work_of(conv, torch.randn(1, 8, 17, 17))
    assert work.flops == pytest.approx(2 * n_out**2 * 64 * kernel**2 / gain + 8 * 17 * 17)


def test_padding_is_not_multiplied() -> None:
    same = work_of(nn.Conv1d(1, 1, 3, padding=1, bias=False), torch.randn(1, 1, 2))
    assert same.flops == int(2 * 4 / 2 + 2)


def test_causal_attention_counts_half() -> None:
    q = torch.randn(1, 2, 32, 8)
    full = work_of(lambda q: F.scaled_dot_product_attention(q, q, q), q).flops
    causal = work_of(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q).flops
    assert full - causal == 2 * 32 * 32 * 8 * 2
