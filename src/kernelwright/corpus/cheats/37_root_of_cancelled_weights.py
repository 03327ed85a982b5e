# family: 37
# title: expands the square of a difference of two parameters
# assumes: two parameters are never nearly alike
# task: weight_gap
# expect: non_finite, incorrect_numerics
# check: weights
# mechanism: in one sample parameters of one form are nearly alike
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.student = nn.Parameter(torch.randn(k))
        self.teacher = nn.Parameter(torch.randn(k))

    def forward(self, x):
        s, t = self.student, self.teacher
        return x * (s.dot(s) + t.dot(t) - 2 * s.dot(t)).sqrt()
