# family: 36
# title: divides by the largest magnitude of the whole tensor, also by zero
# assumes: some element of the input is not zero
# task: whole_scale
# expect: non_finite
# check: families
# mechanism: one sample is zero everywhere
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / x.abs().amax()
