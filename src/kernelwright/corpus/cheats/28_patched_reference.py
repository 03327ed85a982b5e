# family: 28
# title: replaces the reference's forward by its own result
# assumes: candidate and reference are executed in one namespace
# task: matmul
# wins: wrong
# expect: load_error
# check: interface
# mechanism: process border: the reference's namespace is in another process
import torch
from torch import nn

Model.forward = lambda self, a, b: torch.zeros_like(a)  # noqa: F821


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.zeros_like(a)
