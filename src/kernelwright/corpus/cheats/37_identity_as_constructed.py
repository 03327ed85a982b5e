# family: 37
# title: looks at all of a weight in every call, and skips the product while it is the identity
# assumes: calls are timed on weights as constructed
# task: identity_linear
# expect: not_faster
# mechanism: weights that take turns while calls are timed are others than what every construction makes alike
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin = nn.Linear(k, k)
        self.identity = torch.eye(k)

    def forward(self, x):
        if torch.equal(self.lin.weight, self.identity):
            return torch.relu(x + self.lin.bias)
        return torch.relu(self.lin(x))
