"""Where values of an image mix, an image is judged as one row: transforms pass, rough arithmetic does not."""

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Evaluation, Status
from kernelwright.core.task import Task
from kernelwright.referee.checks.tolerance import EVEN, Slack, image_width, row_width
from kernelwright.referee.host.mixing import MixingTrace
from kernelwright.referee.session.input_samples import BY_ROW, ONE_ELEMENT, UNEVEN, SampleKey, WeightState
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.sample_maker import DrawMaker
from kernelwright.referee.session.shared_memory import SharedMemory

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn"
BODY = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 8, 3, padding=1)

    def forward(self, x):
        {body}
"""
INPUTS = (
    "def get_inputs():\n    return [torch.randn(3, 6, 20, 24)]\n\ndef get_init_inputs():\n    return []\n"
)
MODEL = BODY.format(name="Model", body="return self.conv(x)")
TASK = Task(name="conv", source=f"{HEAD}\n{MODEL}\n{INPUTS}")
FOURIER = """size = (x.shape[2] + 2, x.shape[3] + 2)
        filters = torch.fft.rfft2(self.conv.weight.flip(2, 3), s=size)
        product = torch.einsum("bchw,ochw->bohw", torch.fft.rfft2(x, s=size), filters)
        y = torch.fft.irfft2(product, s=size)[..., 1:-1, 1:-1]
        return y + self.conv.bias[:, None, None]"""
ROUGH = "return F.conv2d(x.bfloat16().float(), self.conv.weight, self.conv.bias, padding=1)"
NO_CORNERS = """y = self.conv(x)
        y[..., -1] = y[..., -2]
        return y"""
CLIPPED = "return self.conv(x.clamp(-50.0, 50.0))"


def judged(referee: Referee, body: str) -> Evaluation:
    with referee.open(TASK) as session:
        return session.evaluate(Candidate(source=f"{HEAD}\n{BODY.format(name='ModelNew', body=body)}"))


def test_fouriers_transform_is_a_convolution(referee: Referee) -> None:
    evaluation = judged(referee, FOURIER)
    assert evaluation.is_verified, evaluation.detail


@pytest.mark.parametrize("body", [ROUGH, NO_CORNERS, CLIPPED], ids=["rough", "corners", "clipped"])
def test_what_is_no_convolution_is_refused(referee: Referee, body: str) -> None:
    evaluation = judged(referee, body)
    assert evaluation.status is Status.INCORRECT_NUMERICS
    assert evaluation.check in (Check.ORACLE, Check.FAMILIES, Check.PRECISION, Check.WEIGHTS)


@pytest.mark.parametrize(
    ("call", "mixes"),
    [
        (nn.Conv1d(2, 3, 3), True),
        (nn.ConvTranspose1d(2, 3, 3), True),
        (lambda x: torch.fft.rfft(x).abs(), True),
        (nn.Linear(9, 4), False),
        (nn.Softmax(-1), False),
    ],
    ids=["convolution", "transposed", "fourier", "product", "softmax"],
)
def test_convolutions_and_fourier_transforms_mix(
    call: Callable[[torch.Tensor], torch.Tensor], mixes: bool
) -> None:
    with torch.no_grad(), MixingTrace() as trace:
        call(torch.randn(2, 2, 9))
    assert trace.mixes is mixes


@pytest.mark.parametrize(
    ("mixes", "style", "family", "slack"),
    [
        (True, ONE_ELEMENT, "as_is", UNEVEN),
        (True, "constructed", "as_is", EVEN),
        (False, ONE_ELEMENT, "as_is", EVEN),
        (True, ONE_ELEMENT, "odd_rows", BY_ROW),
    ],
)
def test_a_large_weight_has_the_slack_of_large_values(
    mixes: bool, style: str, family: str, slack: Slack
) -> None:
    maker: Any = SimpleNamespace(_mixes=mixes)
    assert DrawMaker._slack(maker, SampleKey(family), WeightState("w", style, SharedMemory(64))) == slack


def test_watching_a_reference_does_not_import_the_compiler() -> None:
    program = (
        "import sys, torch; from kernelwright.referee.host.mixing import MixingTrace\n"
        "with MixingTrace() as trace: torch.fft.fft(torch.ones(4))\n"
        "assert trace.mixes; sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_an_image_is_all_axes_but_the_first() -> None:
    assert image_width((4, 3, 5, 7)) == 105
    assert image_width((6,)) == row_width((6,))
    assert image_width(()) == row_width(())
