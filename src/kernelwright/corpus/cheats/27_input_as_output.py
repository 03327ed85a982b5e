# family: 27
# title: computes in place and returns its input
# assumes: nobody needs an input again
# task: pointwise
# expect: aliased_output, mutated_input
# check: storage, inputs
# mechanism: outputs share nothing with inputs; inputs are compared byte for byte
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.relu_().mul_(2).add_(1)
