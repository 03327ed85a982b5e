# title: both biases joined in each call
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
        norm = self.norm
        norm.num_batches_tracked += 1
        y = F.batch_norm(
            self.linear(x),
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias + self.bias,
            True,
            0.1,
            norm.eps,
        ).div_(self.divisor)
        return y.mul_(torch.sigmoid(y))
