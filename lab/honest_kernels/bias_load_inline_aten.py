# title: ATen calls and at::parallel_for by load_inline
# origin: C++ by load_inline
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_TEXT = r"""
#include <ATen/Parallel.h>
torch::Tensor run(torch::Tensor x, torch::Tensor bias, torch::Tensor scale) {
  auto y = torch::empty_like(x);
  at::parallel_for(0, x.size(0), 16, [&](int64_t first, int64_t last) {
    auto part = y.narrow(0, first, last - first);
    at::add_out(part, x.narrow(0, first, last - first), bias);
    part.relu_().mul_(scale);
  });
  return y;
}
"""
_extension = load_inline(name="honest_bias_aten", cpp_sources=_TEXT, functions=["run"], extra_cflags=["-O1"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return _extension.run(x, self.bias.detach(), self.scale.detach())
