# title: torch's fused attention, residuals in place
# origin: torch
# task: 53_TransformerBlock
# sizes: batch_size=2, steps=33, features=64, heads=4
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, heads, probability):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(features)
        self.norm_feed = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)

    def forward(self, x):
        batch, steps, features = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*qkv)
        y = self.out(mixed.transpose(1, 2).reshape(batch, steps, features)).add_(x)
        return self.down(F.gelu(self.up(self.norm_feed(y)))).add_(y)
