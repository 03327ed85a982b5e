import torch
from torch import nn

CATEGORY = "fused"


class Model(nn.Module):
    """Linear layer, batch normalisation with batch statistics, extra bias, division, swish."""

    def __init__(self, in_features, out_features, divisor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.norm = nn.BatchNorm1d(out_features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.divisor = divisor

    def forward(self, x):
        x = (self.norm(self.linear(x)) + self.bias) / self.divisor
        return x * torch.sigmoid(x)


batch_size = 4096
in_features = 256
out_features = 1024
divisor = 1.5


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, divisor]
