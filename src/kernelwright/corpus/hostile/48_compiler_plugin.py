# family: 48
# title: asks the compiler to load a library of its own
# assumes: flags are harmless
# task: pointwise
# expect: compile_error
# check: build
# mechanism: flags that load, run or name files are refused
# wins: no
import torch
from torch import nn

CPP_SOURCE = r"""extern "C" void run() {}"""
CXX_FLAGS = ("-O1", "-fplugin=/tmp/evil.so")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
