# title: scale and shift folded into one multiply-add for each row
# origin: torch, float64 inside
# task: 12_LayerNorm
# sizes: batch_size=4, steps=57, features=731
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        variance, mean = torch.var_mean(x.double(), dim=-1, correction=0, keepdim=True)
        scale = torch.rsqrt(variance + self.norm.eps)
        normal = torch.addcmul(-mean * scale, x.double(), scale)
        return torch.addcmul(self.norm.bias.double(), normal, self.norm.weight.double()).float()
