# title: the scale on the queries
# origin: torch
# task: 38_ComposedAttention
# sizes: batch_size=2, heads=3, steps=131, features=32
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = features**-0.5

    def forward(self, query, key, value, bias):
        scores = torch.matmul(query * self.scale, key.transpose(-2, -1)).add_(bias)
        return torch.softmax(scores, dim=-1) @ value
