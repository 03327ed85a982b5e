# family: 8
# title: leaves torch's random generator with the same seed after every call
# assumes: nobody looks at the generator
# task: pointwise
# wins: no
# expect: rejected
# check: tamper
# only: cpu
# mechanism: the generator's state is read from outside before and after the calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.manual_seed(0)
        return torch.relu(x) * 2 + 1
