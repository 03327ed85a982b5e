# family: 36
# title: expands the square of a sum of three inputs
# assumes: no input is nearly the sum of others
# task: translations
# expect: non_finite, incorrect_numerics
# check: families, precision
# mechanism: in one sample inputs are what cancels the other terms of the reference's sums
from torch import nn


def dot(x, y):
    return (x * y).sum(1)


class ModelNew(nn.Module):
    def forward(self, h, r, t):
        squares = dot(h, h) + dot(r, r) + dot(t, t)
        return (squares + 2 * (dot(h, r) - dot(h, t) - dot(r, t))).sqrt()
