"""Models that people have, with random weights; nothing is downloaded.

``tests/gallery`` looks at what is delivered for them at small sizes, ``lab.benchmarks.gallery`` measures them
at larger ones.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map


@dataclass(frozen=True)
class Size:
    """How large the models are."""

    width: int
    """Of a token."""
    heads: int
    tokens: int
    channels: int
    pixels: int
    """Height and width of an image."""
    rows: int
    """Of what has neither tokens nor pixels, by sample."""
    vocabulary: int


SMALL = Size(width=32, heads=4, tokens=6, channels=16, pixels=10, rows=20, vocabulary=64)
"""For tests."""
USUAL = Size(width=512, heads=8, tokens=128, channels=64, pixels=56, rows=4096, vocabulary=4096)
"""For measurements on a few cores."""


@dataclass(frozen=True)
class Entry:
    """One model of the gallery."""

    make: Callable[["Size"], nn.Module]
    inputs: Callable[["Size", int], tuple[Any, ...]]
    """By batch size."""
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)


LOW = (torch.float32, torch.bfloat16, torch.float16)


def package(name: str) -> Any:
    """Import a package of the extra ``gallery``; raises ImportError where it is missing."""
    if name.split(".")[0] in ("torchvision", "timm", "transformers"):
        _declare_detection_operators()
    return importlib.import_module(name)


def _declare_detection_operators() -> None:
    """Declare what a torchvision made for another build of torch misses; no model calls it."""
    global _declared
    if _declared is None:
        _declared = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for name in ("nms", "qnms"):
            try:
                _declared.define(f"{name}{schema}")  # type: ignore[no-untyped-call]
            except RuntimeError:  # it is there
                return


_declared: torch.library.Library | None = None


def llama_config(size: Size) -> Any:
    configuration = package("transformers").LlamaConfig(
        vocab_size=size.vocabulary, hidden_size=size.width, intermediate_size=2 * size.width,
        num_hidden_layers=2, num_attention_heads=size.heads, num_key_value_heads=size.heads // 2,
        max_position_embeddings=max(32, size.tokens), use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    return configuration


class LlamaLayer(nn.Module):
    """A decoder layer of Llama with its rotary embedding."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        llama = package("transformers.models.llama.modeling_llama")
        self.rotary = llama.LlamaRotaryEmbedding(llama_config(size))
        self.layer = llama.LlamaDecoderLayer(llama_config(size), 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1])[None]
        out = self.layer(x, position_embeddings=self.rotary(x, positions))
        return out if isinstance(out, torch.Tensor) else out[0]


class TinyLlama(nn.Module):
    """Token ids in, logits out."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.model = package("transformers").LlamaForCausalLM(llama_config(size))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.model(input_ids=ids).logits
        return made


class FirstOf(nn.Module):
    """The first result of a layer that returns several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        return out if isinstance(out, torch.Tensor) else out[0]


def gpt2_block(size: Size) -> nn.Module:
    transformers = package("transformers")
    positions = max(32, size.tokens)
    config = transformers.GPT2Config(
        n_embd=size.width, n_head=size.heads, n_positions=positions, attn_implementation="sdpa"
    )
    return FirstOf(package("transformers.models.gpt2.modeling_gpt2").GPT2Block(config, layer_idx=0))


def bert_layer(size: Size) -> nn.Module:
    transformers = package("transformers")
    config = transformers.BertConfig(
        hidden_size=size.width, num_attention_heads=size.heads, intermediate_size=2 * size.width,
        attn_implementation="sdpa",
    )  # fmt: skip
    return FirstOf(package("transformers.models.bert.modeling_bert").BertLayer(config))


class FocalLoss(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(logits)
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        return ((0.25 * targets + 0.75 * (1 - targets)) * loss * (1 - p_t) ** 2).mean()


class FourierMixer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        return made


class MixtureGate(nn.Module):
    """Top two of the experts by scores; the weights are scattered back."""

    def __init__(self, width: int, experts: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.gate(x), -1)
        weights, indices = torch.topk(scores, 2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, indices, weights)


class BoxIou(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        package("torchvision.ops")  # where it is missing, the model cannot be made

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = package("torchvision.ops").box_iou(a, b)
        return made


class DotInteraction(nn.Module):
    """DLRM: products of all pairs of embeddings beside the dense features."""

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        stacked = torch.cat((dense[:, None], sparse), 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(stacked.shape[1], stacked.shape[1], -1)
        return torch.cat((dense, products[:, rows, columns]), 1)


class UNetResnetBlock(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        channels, out, time = size.channels // 2, size.channels, size.width
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(temb))[:, :, None, None]
        made: torch.Tensor = self.skip(x) + self.conv2(F.silu(self.norm2(h)))
        return made


class Lstm(nn.Module):
    """An LSTM cell with its state as a tuple."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(size.width, size.width)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        made: tuple[torch.Tensor, torch.Tensor] = self.cell(x, state)
        return made


def mobile_net(size: Size) -> nn.Module:
    v3 = package("torchvision.models.mobilenetv3")
    width = size.channels
    setting = v3.InvertedResidualConfig(width, 3, 2 * width, width, True, "HS", 1, 1, 1.0)
    block: nn.Module = v3.InvertedResidual(setting, nn.BatchNorm2d)
    return block


def boxes(n: int, seed: int) -> torch.Tensor:
    corner = _rand(seed, n, 2) * 10
    return torch.cat((corner, corner + 1 + _rand(seed + 1, n, 2) * 5), 1)


def _rand(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _randn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(size: Size, n: int) -> tuple[Any, ...]:
    return (_randn(0, n, size.tokens, size.width),)


def ids(size: Size, n: int) -> tuple[Any, ...]:
    drawn = torch.Generator().manual_seed(n)
    return (torch.randint(0, size.vocabulary, (n, size.tokens), generator=drawn),)


def image(size: Size, n: int) -> tuple[Any, ...]:
    return (_randn(0, n, size.channels, size.pixels, size.pixels),)


GALLERY: dict[str, Entry] = {
    "layer norm": Entry(lambda s: nn.LayerNorm(s.width), tokens, dtypes=LOW),
    "rms norm": Entry(lambda s: nn.RMSNorm(s.width, eps=1e-6), tokens, dtypes=LOW),
    "llama norm": Entry(
        lambda s: package("transformers.models.llama.modeling_llama").LlamaRMSNorm(s.width),
        tokens,
        dtypes=LOW,
    ),
    "llama block": Entry(LlamaLayer, tokens, dtypes=LOW),
    "gpt2 block": Entry(gpt2_block, tokens, dtypes=LOW),
    "bert block": Entry(bert_layer, tokens, dtypes=LOW),
    "vit block": Entry(
        lambda s: package("timm.models.vision_transformer").Block(s.width, s.heads), tokens, dtypes=LOW
    ),
    "convnext block": Entry(
        lambda s: package("timm.models.convnext").ConvNeXtBlock(s.channels), image, dtypes=LOW
    ),
    "resnet basic block": Entry(
        lambda s: package("torchvision.models.resnet").BasicBlock(s.channels, s.channels), image, dtypes=LOW
    ),
    "mobilenet block": Entry(mobile_net, image, dtypes=LOW),
    "squeeze excite": Entry(
        lambda s: package("timm.layers").SqueezeExcite(s.channels, rd_ratio=0.25), image, dtypes=LOW
    ),
    "encoder layer": Entry(
        lambda s: nn.TransformerEncoderLayer(s.width, s.heads, 2 * s.width, batch_first=True),
        tokens,
        dtypes=LOW,
    ),
    "unet resnet block": Entry(
        UNetResnetBlock,
        lambda s, n: (_randn(0, n, s.channels // 2, s.pixels, s.pixels), _randn(1, n, s.width)),
        dtypes=LOW,
    ),
    "lstm cell": Entry(
        Lstm, lambda s, n: (_randn(0, n, s.width), (_randn(1, n, s.width), _randn(2, n, s.width)))
    ),
    "focal loss": Entry(
        lambda s: FocalLoss(), lambda s, n: (_randn(0, n, s.rows), _rand(1, n, s.rows).round())
    ),
    "fourier mixer": Entry(lambda s: FourierMixer(), tokens),
    "mixture gate": Entry(lambda s: MixtureGate(s.width), tokens),
    "box iou": Entry(lambda s: BoxIou(), lambda s, n: (boxes(n * s.rows // 5, 0), boxes(n * s.rows // 7, 7))),
    "dot interaction": Entry(
        lambda s: DotInteraction(), lambda s, n: (_randn(0, n, s.width), _randn(1, n, 5, s.width))
    ),
    "resnet18": Entry(
        lambda s: package("torchvision.models").resnet18(weights=None, num_classes=10),
        lambda s, n: (_randn(0, n, 3, 32, 32),),
    ),
    "tiny llama": Entry(TinyLlama, ids, dtypes=LOW),
}
CASES = tuple(f"{name}, {str(dtype)[6:]}" for name, entry in GALLERY.items() for dtype in entry.dtypes)
"""Name and type of every model."""


def made(case: str, size: Size) -> tuple[Entry, torch.dtype, nn.Module]:
    """Return a case's entry, type and model in eval mode, the same in every process.

    Raises:
        ImportError: a package of the extra ``gallery`` is missing.
    """
    name, _, dtype_name = case.partition(", ")
    entry, dtype = GALLERY[name], getattr(torch, dtype_name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return entry, dtype, entry.make(size).eval().to(dtype)


def cast(values: Any, dtype: torch.dtype) -> Any:
    """Return a call's arguments with floating-point tensors in a type."""

    def convert(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return tree_map(convert, values)
