"""A candidate with one kernel of every outcome; read as text by the tests."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scaled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) * 2.0, mask=mask)


@triton.jit
def squeezed_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first = tl.load(x_ptr + at)
    total = first
    for step in range(STEPS):
        total = tl.cumsum(total * tl.load(x_ptr + at + step * BLOCK), 0)
    tl.store(out_ptr + at, total + first)


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, K: tl.constexpr, TILE: tl.constexpr):
    rows, columns = tl.arange(0, TILE), tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, 64):
        inner = start + tl.arange(0, 64)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * TILE + columns[None, :])
        total += tl.dot(a, b)
    tl.store(out_ptr + rows[:, None] * TILE + columns[None, :], total)


@triton.jit
def wrong_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.no_such_function(x_ptr))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 100}, num_warps=4), triton.Config({"BLOCK": 512}, num_warps=2)],
    key=["n"],
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


OFFSET = torch.tensor([1.0]).item()


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.first = torch.linspace(0, 1, 4)[1].item()

    def forward(self, x):
        assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
        x = self.linear(x).contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        for _ in range(2):
            scaled_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, BLOCK=1024, num_warps=4)
        scaled_kernel[(1, 70000)](x.view(-1)[1:], out, n - 1, BLOCK=1024)
        squeezed_kernel[(1,)](x, out, BLOCK=4096, STEPS=4, num_warps=4, maxnreg=24)
        a = torch.empty(256, 256, device=x.device)
        product_kernel[(1,)](a, a, torch.empty_like(a), K=256, TILE=128, num_warps=8, num_stages=2)
        product_kernel[(1,)](a, a, torch.empty_like(a), K=512, TILE=256, num_warps=8, num_stages=5)
        wrong_kernel[(1,)](x, BLOCK=16)
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out


def get_inputs():
    return [torch.rand(64, 1024)]


def get_init_inputs():
    return [1024]
