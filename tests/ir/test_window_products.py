"""Which regions slide windows over images, and how far apart results and taps lie."""

import pytest
import torch
from torch import nn

from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import FUSION_EDITS, channels_added, own_products
from kernelwright.ir.lower import lower
from kernelwright.ir.normalise import normalise
from kernelwright.ir.program import Region
from kernelwright.ir.window_products import WindowForm, find_window
from kernelwright.tasks.capture import Captured, capture_module


def captured(layer: nn.Module, *shape: int) -> Captured:
    return capture_module(layer.eval(), (torch.randn(shape),))


def window_of(layer: nn.Module, *shape: int) -> WindowForm | None:
    graph = captured(layer, *shape)
    program = lower(graph, FusionOptions(own=frozenset(node.name for node in own_products(graph))))
    return find_window(normalise(next(step for step in program.steps if isinstance(step, Region))))


def found(layer: nn.Module, *shape: int) -> WindowForm:
    form = window_of(layer, *shape)
    assert form is not None
    return form


def test_a_depthwise_convolution_has_an_image_for_each_channel() -> None:
    form = found(nn.Conv2d(6, 6, (3, 5), stride=(2, 1), padding=2, groups=6), 2, 6, 20, 30)
    assert (form.images, form.n_filters, form.planes) == (12, 1, 1)
    assert (form.rows.move, form.rows.step, form.rows.n_taps) == (2, 1, 3)
    assert (form.columns.move, form.columns.step, form.columns.n_taps) == (1, 1, 5)
    assert form.columns.positions(form.columns.size) == 34


def test_without_padding_taps_are_not_mistaken_for_channels() -> None:
    form = found(
        nn.Conv3d(4, 2, (5, 4, 3), padding=(0, 0, 1), dilation=(2, 1, 3), groups=2), 1, 4, 17, 12, 13
    )
    assert (form.rows.step, form.rows.n_taps, form.columns.step) == (1, 4, 3)
    assert form.planes == 10


def test_a_turned_filter_begins_with_its_last_tap() -> None:
    form = found(nn.ConvTranspose2d(4, 4, 3, padding=1, groups=4), 1, 4, 9, 20)
    assert (form.rows.step, form.rows.before, form.columns.before) == (-1, 2, 2)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Conv2d(4, 8, 1), (2, 4, 9, 20)), (nn.Linear(16, 16), (4, 16))],
    ids=["one-tap", "matrices"],
)
def test_what_has_one_tap_has_no_windows(layer: nn.Module, shape: tuple[int, ...]) -> None:
    assert window_of(layer, *shape) is None


def test_channels_of_a_sum_are_those_of_a_group() -> None:
    def of(layer: nn.Module) -> int | None:
        return channels_added(own_products(captured(layer, 1, 8, 9, 9))[0])

    assert of(nn.Conv2d(8, 8, 3, groups=4)) == 2 and of(nn.Conv2d(8, 8, 3)) is None


@pytest.mark.parametrize(
    ("layer", "gain"),
    [
        (nn.Conv2d(16, 32, 3, padding=1), "more"),
        (nn.Conv2d(16, 32, 3, stride=2), "less"),
        (nn.Conv2d(16, 16, 3, stride=2), "unknown"),
        (nn.Conv2d(16, 32, 1, stride=2), "unknown"),
        (nn.Conv2d(16, 32, 3, stride=2, groups=16), "more"),
    ],
)
def test_code_for_windows_promises_what_was_measured(layer: nn.Module, gain: str) -> None:
    (site,) = FUSION_EDITS["own-product"].sites(captured(layer, 1, 16, 32, 32), FusionOptions())
    promised = "unknown" if site.gain == 1.0 else "more" if site.gain > 1.0 else "less"
    assert promised == gain


def test_narrow_images_promise_less() -> None:
    (site,) = FUSION_EDITS["own-product"].sites(
        captured(nn.Conv2d(64, 64, 3, padding=1), 1, 64, 7, 7), FusionOptions()
    )
    assert site.gain < 1.0
