# title: the sum over a layer's outputs is taken of its weights, in every call
# origin: torch on a GPU
# task: 40_LinearSumLogSumExp
# target: cuda
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        weight, bias = self.linear.weight.sum(0), self.linear.bias.sum()
        rows = x.reshape(-1, x.shape[-1])
        sums = torch.addmv(bias.expand(rows.shape[0]), rows, weight).view(x.shape[:-1])
        return torch.logsumexp(sums * self.scale, dim=1)
