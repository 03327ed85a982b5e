# title: compiles its C++ with g++ by itself when it is imported
# origin: C++, own build
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import ctypes
import os
import subprocess
import tempfile

import torch
from torch import nn

_TEXT = r"""
extern "C" void run(const float* __restrict x, const float* __restrict bias, const float* __restrict scale,
                    float* __restrict y, long rows, long columns) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < columns; ++j) {
      const float shifted = x[i * columns + j] + bias[j];
      y[i * columns + j] = (shifted < 0.0f ? 0.0f : shifted) * scale[j];
    }
}
"""
with tempfile.TemporaryDirectory() as _folder:
    _source, _file = os.path.join(_folder, "k.cpp"), os.path.join(_folder, "k.so")
    with open(_source, "w", encoding="utf-8") as _out:
        _out.write(_TEXT)
    subprocess.run(["g++", "-O2", "-fopenmp", "-shared", "-fPIC", _source, "-o", _file], check=True)
    _library = ctypes.CDLL(_file)
_library.run.argtypes = (ctypes.c_void_p,) * 4 + (ctypes.c_long,) * 2


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        y = torch.empty_like(x)
        _library.run(x.data_ptr(), self.bias.data_ptr(), self.scale.data_ptr(), y.data_ptr(), *x.shape)
        return y
