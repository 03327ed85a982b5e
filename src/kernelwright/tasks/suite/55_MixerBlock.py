import torch
import torch.nn.functional as F
from torch import nn

CATEGORY = "network"


class Model(nn.Module):
    """Mixer block: one perceptron over the tokens, one over the channels, each with a residual."""

    def __init__(self, tokens, channels, hidden):
        super().__init__()
        self.norm_tokens = nn.LayerNorm(channels)
        self.norm_channels = nn.LayerNorm(channels)
        self.tokens_up = nn.Linear(tokens, hidden)
        self.tokens_down = nn.Linear(hidden, tokens)
        self.channels_up = nn.Linear(channels, 2 * channels)
        self.channels_down = nn.Linear(2 * channels, channels)
        for norm in (self.norm_tokens, self.norm_channels):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.2)
        for layer in (self.tokens_up, self.tokens_down, self.channels_up, self.channels_down):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)

    def forward(self, x):
        mixed = self.norm_tokens(x).transpose(1, 2)
        x = x + self.tokens_down(F.gelu(self.tokens_up(mixed))).transpose(1, 2)
        return x + self.channels_down(F.gelu(self.channels_up(self.norm_channels(x))))


batch_size = 32
tokens = 196
channels = 256
hidden = 128


def get_inputs():
    return [torch.randn(batch_size, tokens, channels)]


def get_init_inputs():
    return [tokens, channels, hidden]
