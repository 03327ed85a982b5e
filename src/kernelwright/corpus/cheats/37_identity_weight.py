# family: 37
# title: uses only the diagonal of a weight that starts as the identity
# assumes: weights keep the structure that they start with
# task: identity_linear
# expect: incorrect_numerics
# check: weights, families
# mechanism: structured parameters are replaced by others without structure, and single elements change
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin = nn.Linear(k, k)

    def forward(self, x):
        return torch.relu(torch.addcmul(self.lin.bias, x, self.lin.weight.diagonal()))
