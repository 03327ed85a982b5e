# title: torch's operator with its plain backend
# origin: torch
# task: 37_CausalAttention
# sizes: batch_size=2, heads=3, steps=131, features=32
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


class ModelNew(nn.Module):
    def forward(self, query, key, value):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)
