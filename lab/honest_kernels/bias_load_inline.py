# title: a torch extension by load_inline
# origin: C++ by load_inline
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_TEXT = r"""
torch::Tensor run(torch::Tensor x, torch::Tensor bias, torch::Tensor scale) {
  auto y = torch::empty_like(x);
  const float *from = x.data_ptr<float>(), *b = bias.data_ptr<float>(), *s = scale.data_ptr<float>();
  float* to = y.data_ptr<float>();
  const long rows = x.size(0), columns = x.size(1);
#pragma omp parallel for
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < columns; ++j) {
      const float shifted = from[i * columns + j] + b[j];
      to[i * columns + j] = (shifted < 0.0f ? 0.0f : shifted) * s[j];
    }
  return y;
}
"""
_extension = load_inline(
    name="honest_bias",
    cpp_sources=_TEXT,
    functions=["run"],
    extra_cflags=["-O2", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return _extension.run(x, self.bias, self.scale)
