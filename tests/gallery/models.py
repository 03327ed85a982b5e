"""Models that people have, small and with random weights; nothing is downloaded.

Each entry makes a module in eval mode, the arguments of a call that is verified, and those of another call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Entry:
    """One model of the gallery."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]
    """By batch size."""
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)


LOW = (torch.float32, torch.bfloat16, torch.float16)


def package(name: str) -> Any:
    """Import a package of the extra ``gallery`` or skip with its name."""
    if name.split(".")[0] in ("torchvision", "timm", "transformers"):
        _declare_detection_operators()
    try:
        return __import__("importlib").import_module(name)
    except ImportError:
        pytest.skip(name)


def _declare_detection_operators() -> None:
    """Declare what a torchvision made for another build of torch misses; no model calls it."""
    global _declared
    if _declared is None:
        _declared = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            try:
                _declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            except RuntimeError:  # it is there
                return


_declared: torch.library.Library | None = None


def llama_config() -> Any:
    configuration = package("transformers").LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    return configuration


class LlamaLayer(nn.Module):
    """A decoder layer of Llama with its rotary embedding."""

    def __init__(self) -> None:
        super().__init__()
        llama = package("transformers.models.llama.modeling_llama")
        self.rotary = llama.LlamaRotaryEmbedding(llama_config())
        self.layer = llama.LlamaDecoderLayer(llama_config(), 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1])[None]
        out = self.layer(x, position_embeddings=self.rotary(x, positions))
        return out if isinstance(out, torch.Tensor) else out[0]


class TinyLlama(nn.Module):
    """Token ids in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.model = package("transformers").LlamaForCausalLM(llama_config())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits


class FirstOf(nn.Module):
    """The first result of a layer that returns several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        return out if isinstance(out, torch.Tensor) else out[0]


def gpt2_block() -> nn.Module:
    transformers = package("transformers")
    config = transformers.GPT2Config(n_embd=32, n_head=4, n_positions=32, attn_implementation="sdpa")
    return FirstOf(package("transformers.models.gpt2.modeling_gpt2").GPT2Block(config, layer_idx=0))


def bert_layer() -> nn.Module:
    transformers = package("transformers")
    config = transformers.BertConfig(
        hidden_size=32, num_attention_heads=4, intermediate_size=64, attn_implementation="sdpa"
    )
    return FirstOf(package("transformers.models.bert.modeling_bert").BertLayer(config))


class FocalLoss(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(logits)
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        return ((0.25 * targets + 0.75 * (1 - targets)) * loss * (1 - p_t) ** 2).mean()


class FourierMixer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class MixtureGate(nn.Module):
    """Top two of the experts by scores; the weights are scattered back."""

    def __init__(self, width: int = 32, experts: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.gate(x), -1)
        weights, indices = torch.topk(scores, 2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, indices, weights)


class BoxIou(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return package("torchvision.ops").box_iou(a, b)


class DotInteraction(nn.Module):
    """DLRM: products of all pairs of embeddings beside the dense features."""

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        stacked = torch.cat((dense[:, None], sparse), 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(stacked.shape[1], stacked.shape[1], -1)
        return torch.cat((dense, products[:, rows, columns]), 1)


class UNetResnetBlock(nn.Module):
    def __init__(self, channels: int = 8, out: int = 16, time: int = 12) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(temb))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Lstm(nn.Module):
    """An LSTM cell with its state as a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(12, 16)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cell(x, state)


def conv_next() -> nn.Module:
    return package("timm.models.convnext").ConvNeXtBlock(16)


def vit() -> nn.Module:
    return package("timm.models.vision_transformer").Block(32, 4)


def mobile_net() -> nn.Module:
    v3 = package("torchvision.models.mobilenetv3")
    setting = v3.InvertedResidualConfig(16, 3, 32, 16, True, "HS", 1, 1, 1.0)
    return v3.InvertedResidual(setting, nn.BatchNorm2d)


def boxes(n: int, seed: int) -> torch.Tensor:
    corner = _rand(seed, n, 2) * 10
    return torch.cat((corner, corner + 1 + _rand(seed + 1, n, 2) * 5), 1)


def _rand(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _randn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _ids(n: int) -> torch.Tensor:
    return torch.randint(0, 64, (n, 6), generator=torch.Generator().manual_seed(n))


def tokens(n: int) -> tuple[Any, ...]:
    return (_randn(0, n, 6, 32),)


def image(channels: int, size: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: (_randn(0, n, channels, size, size),)


GALLERY: dict[str, Entry] = {
    "layer norm": Entry(lambda: nn.LayerNorm(32), tokens, dtypes=LOW),
    "rms norm": Entry(lambda: nn.RMSNorm(32, eps=1e-6), tokens, dtypes=LOW),
    "llama norm": Entry(
        lambda: package("transformers.models.llama.modeling_llama").LlamaRMSNorm(32), tokens, dtypes=LOW
    ),
    "llama block": Entry(LlamaLayer, tokens, dtypes=LOW),
    "gpt2 block": Entry(gpt2_block, tokens, dtypes=LOW),
    "bert block": Entry(bert_layer, tokens, dtypes=LOW),
    "vit block": Entry(vit, tokens, dtypes=LOW),
    "convnext block": Entry(conv_next, image(16, 10), dtypes=LOW),
    "resnet basic block": Entry(
        lambda: package("torchvision.models.resnet").BasicBlock(16, 16), image(16, 10), dtypes=LOW
    ),
    "mobilenet block": Entry(mobile_net, image(16, 10), dtypes=LOW),
    "squeeze excite": Entry(
        lambda: package("timm.layers").SqueezeExcite(16, rd_ratio=0.25), image(16, 8), dtypes=LOW
    ),
    "encoder layer": Entry(
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), tokens, dtypes=LOW
    ),
    "unet resnet block": Entry(
        UNetResnetBlock, lambda n: (_randn(0, n, 8, 8, 8), _randn(1, n, 12)), dtypes=LOW
    ),
    "lstm cell": Entry(Lstm, lambda n: (_randn(0, n, 12), (_randn(1, n, 16), _randn(2, n, 16)))),
    "focal loss": Entry(FocalLoss, lambda n: (_randn(0, n, 20), _rand(1, n, 20).round())),
    "fourier mixer": Entry(FourierMixer, tokens),
    "mixture gate": Entry(MixtureGate, tokens),
    "box iou": Entry(BoxIou, lambda n: (boxes(4 * n, 0), boxes(3 * n, 7))),
    "dot interaction": Entry(DotInteraction, lambda n: (_randn(0, n, 8), _randn(1, n, 5, 8))),
    "resnet18": Entry(
        lambda: package("torchvision.models").resnet18(weights=None, num_classes=10), image(3, 32)
    ),
    "tiny llama": Entry(TinyLlama, lambda n: (_ids(n),), dtypes=LOW),
}
