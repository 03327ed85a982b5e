# family: 39
# title: takes the mean over one row in sixteen
# assumes: a sample is as good as the whole
# task: loss
# expect: incorrect_numerics
# check: oracle, precision
# mechanism: the tolerance is a small multiple of the reference's own error; spikes and heavy tails
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return 0.05 * torch.mean((x[::16] - y[::16]) ** 2)
