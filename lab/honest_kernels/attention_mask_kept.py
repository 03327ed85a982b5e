# title: the mask is made once for each number of steps
# origin: torch, own scratch
# task: 37_CausalAttention
# sizes: batch_size=2, heads=3, steps=131, features=32
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {}

    def forward(self, query, key, value):
        steps = query.shape[-2]
        if steps not in self.masks:
            self.masks[steps] = torch.full((steps, steps), float("-inf")).triu(1)
        scores = torch.baddbmm(
            self.masks[steps],
            query.flatten(0, 1),
            key.flatten(0, 1).transpose(1, 2),
            alpha=query.shape[-1] ** -0.5,
        )
        return torch.bmm(torch.softmax(scores, dim=-1), value.flatten(0, 1)).view_as(query)
