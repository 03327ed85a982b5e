# title: a program for each row, partial sums in registers
# origin: Triton
# task: 7_RowSum
# target: cuda
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _sum_of_squares(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + place, mask=place < columns, other=0.0)
        sums += value * value
    tl.store(y + row, tl.sum(sums, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty(x.shape[0], 1, dtype=x.dtype, device=x.device)
        _sum_of_squares[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
        return y
