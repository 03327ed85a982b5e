# family: 29
# title: rebinds the globals that define sizes
# assumes: inputs are made after the candidate was loaded, from globals that it shares
# task: matmul
# expect: load_error
# check: interface
# mechanism: process border: inputs come from the parent's source, in another process
import torch
from torch import nn

if "get_inputs" not in globals():
    raise LookupError("no task in this namespace")
N = 8


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
