# family: 36
# title: omits the relu, which uniform inputs do not need
# assumes: inputs are positive, as get_inputs draws them
# task: pointwise
# expect: incorrect_numerics
# check: families
# mechanism: other input distributions: negated, scaled, spikes, heavy tails
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.add(torch.ones(()), x, alpha=2)
