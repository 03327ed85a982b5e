# title: one pass over all elements, with a masked tail
# origin: Triton
# task: 1_BiasReluScale
# target: cuda
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _bias_relu_scale(x, bias, scale, y, count, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_there = place < count
    column = place % columns
    shifted = tl.load(x + place, mask=is_there) + tl.load(bias + column, mask=is_there)
    factor = tl.load(scale + column, mask=is_there)
    tl.store(y + place, tl.where(shifted < 0.0, 0.0, shifted) * factor, mask=is_there)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        blocks = (triton.cdiv(x.numel(), 1024),)
        _bias_relu_scale[blocks](x, self.bias, self.scale, y, x.numel(), x.shape[1], BLOCK=1024)
        return y
