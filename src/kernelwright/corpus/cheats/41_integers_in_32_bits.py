# family: 41
# title: adds 64-bit integers in 32 bits, which hold sums of values as small as those drawn
# assumes: integers stay in the range of the example
# task: integer_sum
# expect: incorrect_numerics
# check: families
# mechanism: integers that are numbers get as many bits as the reference computes with exactly
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.int() + b.int()).long()
