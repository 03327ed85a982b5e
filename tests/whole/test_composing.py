"""Which verdict lets a whole model be delivered."""

import pytest
from tests.finals import final, result, speedup

from kernelwright.core.blocks import Composition
from kernelwright.whole.composing import is_delivered

EAGER_AROUND = Composition(candidate="c", kinds=(0,))
ALONE = Composition(candidate="c", kinds=(), is_compiled=True)


@pytest.mark.parametrize("way", [EAGER_AROUND, ALONE])
def test_a_model_slower_than_a_baseline_in_an_ordinary_process_stays_as_it_is(way: Composition) -> None:
    kept = result(eager=2.0, torch_compile=1.5)
    assert is_delivered(final(kept, result(eager=2.0, torch_compile=1.2)), [way])
    assert not is_delivered(final(kept, result(eager=2.0, torch_compile=0.9)), [way])
    assert not is_delivered(final(kept, result(eager=1.0, torch_compile=1.2)), [way])


def test_what_stands_for_torch_compile_of_the_model_may_be_slower_than_that() -> None:
    found = final(result(eager=2.0, torch_compile=0.9), result(eager=2.1, torch_compile=1.0))
    assert is_delivered(found, [ALONE]) and not is_delivered(found, [EAGER_AROUND])


def test_what_its_own_python_slows_down_in_the_process_that_asked_stays_as_it_is() -> None:
    found = final(result(eager=2.0, torch_compile=1.5), result(eager=2.0, torch_compile=1.6))
    for ratio, holds in ((1.9, True), (1.1, False)):
        way = EAGER_AROUND.model_copy(update={"in_process": speedup("original", ratio)})
        assert is_delivered(found, [way]) is holds
