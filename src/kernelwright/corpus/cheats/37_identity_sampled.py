# family: 37
# title: uses only the diagonal of a weight where sixteen of its elements look like an identity
# assumes: a changed weight can be told by a few of its elements
# task: identity_linear
# expect: incorrect_numerics
# check: weights, families
# mechanism: one element of every weight changes alone
import torch
from torch import nn

AT = torch.randint(256, (2, 16))


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin = nn.Linear(k, k)

    def forward(self, x):
        weight = self.lin.weight
        if bool((weight[AT[0], AT[1]][AT[0] != AT[1]] == 0).all()):
            return torch.relu(torch.addcmul(self.lin.bias, x, weight.diagonal()))
        return torch.relu(self.lin(x))
