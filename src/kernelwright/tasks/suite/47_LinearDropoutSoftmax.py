import torch
from torch import nn

CATEGORY = "fused"
MODE = "eval"


class Model(nn.Module):
    """Linear layer, dropout (idle in evaluation), softmax at a temperature."""

    def __init__(self, in_features, out_features, probability, temperature):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(probability)
        self.temperature = temperature

    def forward(self, x):
        return torch.softmax(self.dropout(self.linear(x)) / self.temperature, dim=-1)


batch_size = 16384
in_features = 128
out_features = 512
probability = 0.2
temperature = 0.25


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, probability, temperature]
