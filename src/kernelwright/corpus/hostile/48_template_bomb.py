# family: 48
# title: C++ whose templates grow exponentially
# assumes: compilers end
# task: pointwise
# expect: compile_error, timeout
# check: build, limits
# mechanism: the compiler has limits on time and memory
# wins: no
import torch
from torch import nn

CPP_SOURCE = r"""
template <int DEPTH, class LEFT, class RIGHT>
struct Tree {
  using A = Tree<DEPTH - 1, Tree<DEPTH, LEFT, int>, RIGHT>;
  using B = Tree<DEPTH - 1, LEFT, Tree<DEPTH, RIGHT, long>>;
  static constexpr int value = A::value + B::value;
};
template <class LEFT, class RIGHT>
struct Tree<0, LEFT, RIGHT> { static constexpr int value = sizeof(LEFT*); };
extern "C" int run() { return Tree<60, char, short>::value; }
"""
CXX_FLAGS = ("-O1",)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
