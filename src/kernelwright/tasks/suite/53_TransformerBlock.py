import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "network"
MODE = "eval"


class Model(nn.Module):
    """Pre-norm transformer block: self-attention and a feed-forward part, each with a residual."""

    def __init__(self, features, heads, probability):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(features)
        self.norm_feed = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)
        self.dropout = nn.Dropout(probability)
        for norm in (self.norm_attention, self.norm_feed):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.2)
        for layer in (self.qkv, self.out, self.up, self.down):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)

    def attend(self, x):
        batch, steps, features = x.shape
        q, k, v = self.qkv(x).view(batch, steps, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) * (features // self.heads) ** -0.5, dim=-1)
        mixed = self.dropout(scores) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, steps, features))

    def forward(self, x):
        x = x + self.attend(self.norm_attention(x))
        return x + self.down(self.dropout(F.gelu(self.up(self.norm_feed(x)))))


batch_size = 8
steps = 256
features = 256
heads = 4
probability = 0.1


def get_inputs():
    return [torch.randn(batch_size, steps, features)]


def get_init_inputs():
    return [features, heads, probability]
