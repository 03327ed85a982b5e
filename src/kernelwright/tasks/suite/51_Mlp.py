import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "network"


class Model(nn.Module):
    """Multilayer perceptron: two hidden layers with GELU and SiLU."""

    def __init__(self, in_features, hidden, out_features):
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, out_features)
        for layer in (self.first, self.second, self.last):
            nn.init.normal_(layer.weight, std=(2.0 / layer.in_features) ** 0.5)

    def forward(self, x):
        return self.last(F.silu(self.second(F.gelu(self.first(x)))))


batch_size = 4096
in_features = 256
hidden = 512
out_features = 256


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, hidden, out_features]
