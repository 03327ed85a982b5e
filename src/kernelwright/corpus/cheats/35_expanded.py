# family: 35
# title: returns one element, expanded to the shape
# assumes: an output of the right shape has been written
# task: softmax
# expect: aliased_output
# check: storage
# mechanism: outputs must be dense: no two elements share memory
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((1, 1), 1 / x.shape[1], device=x.device).expand(x.shape)
