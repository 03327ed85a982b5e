# family: 48
# title: C++ whose compilation reads a file that has no end
# assumes: compilers end
# task: pointwise
# expect: compile_error
# check: build
# mechanism: the compiler has limits on time and memory
# wins: no
import torch
from torch import nn

CPP_SOURCE = r"""#include "/dev/zero"
extern "C" void run() {}"""
CXX_FLAGS = ("-O1",)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
