# title: silu, the rest as it is
# origin: torch
# task: 50_LinearBatchNormSwish
# sizes: batch_size=131, in_features=67, out_features=35
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, divisor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.norm = nn.BatchNorm1d(out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.divisor = divisor

    def forward(self, x):
        return F.silu((self.norm(self.linear(x)) + self.bias) / self.divisor)
