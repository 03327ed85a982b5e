"""What a person reads: printed kernels as golden text, and names that Python and Triton do not own."""

from pathlib import Path

import pytest
from lab.golden import check_golden
from tests.ir.regions import at, layer_norm, pool, reduction, scan, softmax
from tests.targets.triton.printed import print_module

from kernelwright.ir.program import Axis, Load, LoopStage, Op, Region, StoreTo
from kernelwright.targets.triton.prelude import prelude_for
from kernelwright.targets.triton.printer import print_kernel

GOLDEN = Path(__file__).parent / "golden"
REGIONS = {
    "softmax_short": softmax(4096, 200),
    "softmax_long": softmax(256, 100_000),
    "layer_norm": layer_norm(4096, 4096),
    "column_sum": reduction(512, 4096, "sum", "i"),
    "argmax": reduction(4096, 1000, "argmax", "j"),
    "max_pool": pool(8, 56, 3, 2, 1, "max"),
    "reverse_scan": scan(1024, 4096, "sum", "j", reverse=True),
}


@pytest.mark.parametrize("name", sorted(REGIONS))
def test_printed_kernel(name: str, request: pytest.FixtureRequest) -> None:
    check_golden(GOLDEN / f"{name}.py.txt", print_module((REGIONS[name],)), request)


def test_buffers_named_like_words_of_the_language_are_renamed() -> None:
    value = Op("add", (Load("lambda", at(i=1), "float32"), Load("tl", at(i=1), "float32")), "float32")
    stage = LoopStage("sum", "map", (), value, "float32", stores=(StoreTo("out", at(i=1)),))
    text = print_kernel(Region("words", (Axis("i", 8),), (), (stage,))).text
    compile(text, "words.py", "exec")
    assert "    tl = " not in text and "    lambda = " not in text


def test_tensors_beyond_32_bits_are_indexed_in_64() -> None:
    region = softmax(3, 1 << 30)
    assert "tl.int64" in print_kernel(region).text
    assert "tl.int64" not in print_kernel(softmax(3, 1 << 20)).text


def test_a_file_carries_only_the_functions_it_uses_and_what_they_need() -> None:
    text = prelude_for("y = tanh(x)")
    assert "def tanh(" in text and "def expm1(" in text and "def softplus(" not in text
    assert prelude_for("tanh_at = x  # tanh") == ""
