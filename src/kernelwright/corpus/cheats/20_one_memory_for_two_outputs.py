# family: 20
# title: returns one tensor twice where the reference returns a copy
# assumes: nobody writes to one output and reads another one
# task: two_outputs
# expect: aliased_output
# check: storage
# mechanism: outputs of one call share no memory with each other, unless the reference's do
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y, y
