"""A model beside the original, in the process in which it will run."""

import time
from typing import Any

import torch
from torch import nn

from kernelwright.delivery.making import ExampleCall
from kernelwright.whole.own_process import FEWEST, timed_in_turn


class Slow(nn.Module):
    """Sleeps, and remembers when it was called."""

    def __init__(self, seconds: float, log: list[Any]) -> None:
        super().__init__()
        self.seconds, self.log = seconds, log

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.log.append(self)
        time.sleep(self.seconds)
        return x * 2


def test_both_are_called_as_often_and_take_turns_in_beginning() -> None:
    log: list[Any] = []
    first, second = Slow(0.02, log), Slow(0.0, log)
    found = timed_in_turn(first, second, [ExampleCall("w", (torch.ones(2),), {})], seconds=0.0)
    assert found.verdict == "faster" and found.baseline == "eager"
    rounds = log[-2 * FEWEST :]
    assert [rounds[0], rounds[2], rounds[4]] == [first, second, first]
    assert rounds.count(first) == rounds.count(second) == FEWEST
