"""What models answer, and the name each unusable answer gets."""

import textwrap

import pytest
from tests.agents.llm.conftest import KERNEL, REFERENCE

from kernelwright.agents.llm.answers import (
    ExpectedAnswer,
    prose,
    read_account,
    read_line,
    read_source,
    split_kernels,
)
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.sources import LOADER_LINE, fold, renamed_reference, unfold
from kernelwright.core.candidate import Candidate
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

EXPECTED = ExpectedAnswer(REFERENCE, CPU_CPP)
FOLDED = fold(KERNEL)
RENAMED = renamed_reference(REFERENCE)
TRIED = '''import torch
from torch import nn
CPP_SOURCE = r"""extern "C" void k(const float* x, float* y) {}"""
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        try:
            out = torch.empty(512)
            _k(x.data_ptr(), out.data_ptr())
            return out
        except Exception:
            BODY
'''
PLAIN = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.abs()\n"
TRITON = PLAIN.replace("import torch\n", "import torch\nimport triton\n")
CUDA = KERNEL.replace("extern", "__global__ extern")


def fenced(source: str, language: str = "python") -> str:
    return f"Here it is:\n```{language}\n{source}```\nDone.\n"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (fenced(FOLDED), CallOutcome.OK),
        (fenced(FOLDED, ""), CallOutcome.OK),
        (f"~~~~python\n{FOLDED}~~~~", CallOutcome.OK),
        (f"```python\n{FOLDED}", CallOutcome.OK),
        (FOLDED, CallOutcome.OK),
        (fenced(FOLDED) + fenced(FOLDED), CallOutcome.OK),
        (fenced(FOLDED) + fenced("x = 1\n"), CallOutcome.OK),
        (fenced(FOLDED + "def broken(:\n"), CallOutcome.OK),
        (f"<think>first draft\n{fenced(FOLDED + '# draft')}</think>\n{fenced(FOLDED)}", CallOutcome.OK),
        (textwrap.indent(fenced(FOLDED), "   "), CallOutcome.OK),
        (" \n", CallOutcome.EMPTY),
        ("The kernel should be tiled.", CallOutcome.NO_CODE),
        (fenced("def forward(x): return x\n"), CallOutcome.NO_CODE),
        (fenced(FOLDED, "cpp"), CallOutcome.NO_CODE),
        (fenced(FOLDED) + fenced(FOLDED + "# other\n"), CallOutcome.SEVERAL_BLOCKS),
        ("I'm sorry, but I can't help with that.", CallOutcome.REFUSED),
        ("I cannot assist with this request.", CallOutcome.REFUSED),
        (fenced(RENAMED), CallOutcome.REFERENCE_RETURNED),
        (fenced(REFERENCE + "\nModelNew = Model\n"), CallOutcome.REFERENCE_RETURNED),
        (fenced(REFERENCE + "\nclass ModelNew(Model):\n    pass\n"), CallOutcome.REFERENCE_RETURNED),
        (fenced(TRIED.replace("BODY", "return torch.relu(x * self.scale).sum(dim=1)")),
         CallOutcome.HIDES_REFERENCE),
        (fenced(TRIED.replace("BODY", "pass\n        return torch.relu(x).sum(dim=1)")),
         CallOutcome.HIDES_REFERENCE),
        (fenced(TRIED.replace("BODY", "return self.p(x)\n    def p(self, x):\n        return x.relu()")),
         CallOutcome.HIDES_REFERENCE),
        (fenced(TRIED.replace("BODY", "raise RuntimeError('no kernel')")), CallOutcome.OK),
        (fenced(PLAIN), CallOutcome.WRONG_LANGUAGE),
        (fenced(TRITON), CallOutcome.WRONG_LANGUAGE),
        (fenced(CUDA), CallOutcome.WRONG_LANGUAGE),
    ],
)  # fmt: skip
def test_an_answer_is_a_source_or_has_a_name(text: str, outcome: CallOutcome) -> None:
    judged = read_source(text, EXPECTED)
    assert judged.outcome is outcome, judged.detail
    assert (judged.value is not None) == (outcome is CallOutcome.OK)
    assert bool(judged.detail) == (outcome is not CallOutcome.OK)


def test_an_answer_with_several_kernels_comes_apart_each_with_the_words_before_it() -> None:
    other = FOLDED + "OTHER = 1\n"
    aside = "An aside:\n```cpp\nint x;\n```\n"
    draft = f"<think>{fenced(FOLDED + '# draft')}</think>"
    first, second = split_kernels(f"{draft}Change: a\n{fenced(FOLDED)}{aside}Change: b\n{fenced(other)}")
    assert (read_line(first, "change"), read_line(second, "change")) == ("a", "b")
    read = [read_source(part, EXPECTED).value for part in (first, second)]
    assert read == [unfold(FOLDED), unfold(other)]
    assert split_kernels(fenced(FOLDED)) == (fenced(FOLDED),)
    assert split_kernels("No kernel at all.") == ("No kernel at all.",)


def test_values_left_open_that_cannot_be_read_are_named() -> None:
    broken = FOLDED.replace("CPP_SOURCE", 'TUNE = {"TILE": 16}\n\nCPP_SOURCE', 1)
    read = read_source(f"```python\n{broken}```", EXPECTED)
    assert read.outcome is CallOutcome.INVALID_OUTPUT and "must be a list" in read.detail
    whole = broken.replace("16}", "[16, 32]}")
    assert read_source(f"```python\n{whole}```", EXPECTED).outcome is CallOutcome.OK


def test_docstrings_annotations_and_input_generators_do_not_disguise_the_reference() -> None:
    disguised = RENAMED.replace(
        "def forward(self, x):", 'def forward(self, x: torch.Tensor):\n        """Fast."""'
    )
    disguised = disguised[: disguised.index("def get_inputs")] + "# hand tuned\n"
    assert read_source(fenced(disguised), EXPECTED).outcome is CallOutcome.REFERENCE_RETURNED
    changed = disguised.replace("torch.relu(x * self.scale)", "torch.relu(x) * self.scale")
    assert read_source(fenced(changed), EXPECTED).outcome is CallOutcome.WRONG_LANGUAGE
    algebra = ExpectedAnswer(REFERENCE, CPU_CPP, needs_kernel=False)
    assert read_source(fenced(changed), algebra).outcome is CallOutcome.OK


def test_a_helper_that_differs_makes_another_program() -> None:
    reference = "def f(x):\n    return x.exp()\n" + REFERENCE.replace("torch.relu(", "f(")
    renamed = renamed_reference(reference)
    expected = ExpectedAnswer(reference, CPU_CPP, needs_kernel=False)
    assert read_source(fenced(renamed), expected).outcome is CallOutcome.REFERENCE_RETURNED
    assert read_source(fenced(renamed.replace("x.exp()", "x.exp2()")), expected).outcome is CallOutcome.OK


def test_the_loader_is_folded_for_prompts_and_put_back_exactly() -> None:
    assert LOADER_LINE in FOLDED and "_load_library" not in FOLDED
    whole = unfold(FOLDED)
    assert whole == KERNEL and unfold(whole) == whole
    assert unfold(fold(whole)) == whole


def test_only_the_name_of_the_class_is_changed() -> None:
    source = (
        "class Model(Base):  # Model\n    def f(self):\n"
        "        super(Model, self).f()\n        x.Model = 'Model'\n        ModelB()\n"
    )
    assert renamed_reference(source) == source.replace("class Model(", "class ModelNew(").replace(
        "super(Model,", "super(ModelNew,"
    )


def test_an_account_counts_only_with_a_name_of_the_source() -> None:
    text = (
        "1 -> `relu_sum`: four accumulators\n**2.** → `forward()` checks\n"
        "- Step 3 -> `nowhere`: done\n4 -> done\noutside -> `CXX_FLAGS`: -O2\n"
        "```python\n5 -> `relu_sum`\nrelu_sum forward CXX_FLAGS\n```"
    )
    account = read_account(text, "relu_sum forward CXX_FLAGS")
    assert set(account) == {"1", "2", "outside"}
    assert read_line("**Change:** widened it\n```\nChange: no\n```", "change") == "widened it"
    assert "relu_sum forward" not in prose(text)


@pytest.mark.slow
def test_the_worked_example_of_the_prompts_is_verified_by_the_referee(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = prompting_of(CPU_CPP).file("example.md").read_text(encoding="utf-8")
    answer = read_source(text.partition("Answer:")[2], EXPECTED)
    assert answer.value is not None, answer.detail
    settings = RefereeSettings(cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.1)
    with Referee(settings) as referee, referee.open(Task(name="relu_sum", source=REFERENCE)) as session:
        evaluation = session.evaluate(Candidate(source=answer.value))
    assert evaluation.is_verified, f"{evaluation.detail}\n{evaluation.log}"
