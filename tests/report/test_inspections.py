"""What compilers found, as files that a person reads; words of a candidate stay words."""

import re
from pathlib import Path

import pytest
from lab.golden import check_golden

from kernelwright.core.evidence import FactValue
from kernelwright.report.inspectionpage import COLOURS, mix_picture, render_inspection
from kernelwright.report.inspections import MIXES, OTHER, inspections_markdown, mix
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelForm,
    KernelOutcome,
    KernelReport,
)

GOLDEN = Path(__file__).parent / "golden"
WHEN, COMMAND = "2026-11-21 12:00 UTC", "kernelwright inspect k.py --gpu sm_80 --gpu sm_90 --out o"


def facts(registers: int, spills: int, **more: FactValue) -> dict[str, FactValue]:
    return {
        "aot.registers": registers, "aot.spills": spills, "aot.shared_bytes": 32768, "aot.block_threads": 256,
        "aot.occupancy": 0.25, "aot.occupancy_limit": "shared", "aot.load_bytes": 16.0,
        "aot.store_bytes": 6.4, "aot.instructions": 400, "aot.global_accesses": 20, "aot.shared_accesses": 40,
        "aot.async_copies": 8, "aot.matrix_instructions": 64, "aot.fma_instructions": 100,
        "aot.special_instructions": 0, "aot.shuffles": 10, "aot.atomics": 0, "aot.barriers": 4,
        "aot.branches": 12, "gpu.waves": 0.5, "gpu.units": 108, **more,
    }  # fmt: skip


PRODUCT = KernelReport(
    kernel="product_kernel", outcome=KernelOutcome.FITS, constants={"TILE": "128", "ACT": "relu"},
    num_warps=8, grid=(64, 2), launches=1, facts=facts(96, 0),
)  # fmt: skip
SUMS = KernelReport(
    kernel="sums<b>|x", outcome=KernelOutcome.NOT_BUILT, detail="<script>alert('no')</script> | refused",
    launches=1,
)  # fmt: skip
SPILLS = PRODUCT.model_copy(update={"outcome": KernelOutcome.SPILLS, "facts": facts(255, 12)})
FOUND = (
    Inspection(
        architecture="sm_80", device="a100-sxm", status=InspectionStatus.INSPECTED, kernels=(PRODUCT, SUMS),
        versions={"triton": "3.7.1"}, sandbox="namespaces", log="its last <words>",
    ),
    Inspection(
        architecture="sm_90", device="h100-sxm", status=InspectionStatus.INSPECTED, kernels=(SPILLS, SUMS),
        versions={"triton": "3.7.1"}, sandbox="namespaces",
    ),
)  # fmt: skip
REGISTERS: dict[str, FactValue] = {"aot.registers": 8}
INLINE = Inspection(
    architecture="sm_90", device="h100-sxm", form=KernelForm.LOAD_INLINE, status=InspectionStatus.INSPECTED,
    kernels=(KernelReport(kernel="k", outcome=KernelOutcome.BUILT, launches=None, facts=REGISTERS),),
    notes=("k: size of its blocks is computed at run time",), versions={"compiler": "nvcc-13.0.88"},
)  # fmt: skip


def page(*found: Inspection) -> str:
    return render_inspection("k.py", "import triton  # <b>", found, date=WHEN, command=COMMAND)


def test_the_markdown_is_what_it_was(request: pytest.FixtureRequest) -> None:
    text = inspections_markdown("k.py", FOUND, date=WHEN, command=COMMAND)
    check_golden(GOLDEN / "inspection.md", text, request)


def test_the_page_is_what_it_was(request: pytest.FixtureRequest) -> None:
    text = re.sub(r"<(style|script)>[\s\S]*?</\1>", r"<\1></\1>", page(*FOUND))
    check_golden(GOLDEN / "inspection.html", text, request)


def test_the_same_kernel_stands_together_for_all_architectures() -> None:
    text = inspections_markdown("k.py", FOUND, date=WHEN, command=COMMAND)
    first = [line.split("|")[1].strip() for line in text.splitlines() if "| product_kernel(TILE=128)" in line]
    assert first[:2] == ["sm_80", "sm_90"]
    assert "12 registers are spilled to memory" in text and "(sm_90)" in text


def test_every_instruction_is_in_one_group() -> None:
    counts = mix(PRODUCT.facts)
    assert sum(counts.values()) == 400
    assert counts["shared memory"] == 48 and counts["between threads"] == 14 and counts[OTHER] == 142
    assert len(COLOURS) == len(MIXES) + 1


def test_without_machine_code_there_is_no_picture() -> None:
    assert mix(SUMS.facts) == {} and mix_picture([INLINE]) == ""
    assert "Instructions" not in page(INLINE)
    assert "## Instructions" not in inspections_markdown("k.py", [INLINE], date=WHEN, command=COMMAND)


def test_words_of_a_candidate_stay_words() -> None:
    text = page(*FOUND)
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "sums<b>" not in text
    markdown = inspections_markdown("k.py", FOUND, date=WHEN, command=COMMAND)
    assert "<script" not in markdown and "<b>" not in markdown
    assert "its last &lt;words&gt;" in text and "import</span> triton" in text
    assert 'src="' not in text and "url(" not in text and re.findall(r'href="([^"]+)"', text) == ["data:,"]


def test_a_fit_that_is_not_known_is_not_claimed() -> None:
    text = inspections_markdown("k.py", [INLINE], date=WHEN, command=COMMAND)
    assert "Every kernel is built for sm_90" in text and "block size not known for 1" in text
    assert "can be launched" not in text


def test_a_candidate_that_ended_early_has_a_page_of_its_own() -> None:
    ended = Inspection(
        architecture="sm_90", device="h100-sxm", status=InspectionStatus.NOT_RUN, detail="ValueError: no"
    )
    text = page(ended)
    assert "not run: ValueError: no" in text and "<table>" not in text
    assert "Not every kernel" in text
