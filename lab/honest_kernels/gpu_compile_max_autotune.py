# title: torch.compile with max-autotune, its graph's output copied out of it
# origin: torch.compile
# task: 51_Mlp
# target: cuda
import torch
import torch.nn.functional as F
from torch import nn


@torch.compile(dynamic=False, mode="max-autotune")
def _mlp(x, first, second, last):
    hidden = F.gelu(F.linear(x, *first))
    return F.linear(F.silu(F.linear(hidden, *second)), *last)


class ModelNew(nn.Module):
    def __init__(self, in_features, hidden, out_features):
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, out_features)

    def forward(self, x):
        torch.compiler.cudagraph_mark_step_begin()
        layers = ((layer.weight, layer.bias) for layer in (self.first, self.second, self.last))
        return _mlp(x, *layers).clone()
