# family: 27
# title: uses an input as scratch memory
# assumes: nobody needs an input again
# task: pointwise
# expect: mutated_input
# check: inputs
# mechanism: inputs are compared byte for byte after the call
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.relu_() * 2 + 1
