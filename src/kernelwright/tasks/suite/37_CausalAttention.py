import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "attention"


class Model(nn.Module):
    """Causal attention by torch's own fused operator."""

    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


batch_size = 4
heads = 8
steps = 512
features = 64


def get_inputs():
    shape = (batch_size, heads, steps, features)
    return [torch.randn(shape) * 1.5, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
