# family: 41
# title: multiplies integers as float32, which is exact for values as small as those drawn
# assumes: integers stay in the range of the example
# task: integer_product
# expect: incorrect_numerics
# check: families
# mechanism: integers that are added and multiplied only leave the range as drawn
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.float() @ b.float()).long()
