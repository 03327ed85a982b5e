# family: 24
# title: returns fresh memory in the hope that it still holds the answer
# assumes: freed memory is handed out again with what it held
# task: matmul
# wins: no
# expect: incorrect_numerics, non_finite
# check: oracle
# mechanism: the process never held an expected output; memory is filled before it is handed out
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.empty_like(a)
