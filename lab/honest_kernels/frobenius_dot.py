# title: the norm as a dot product
# origin: torch
# task: 17_FrobeniusScale
# sizes: batch_size=7, channels=17, height=33, width=67
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        flat = x.reshape(-1)
        return x * (math.sqrt(x.numel()) * torch.rsqrt(torch.dot(flat, flat)))
