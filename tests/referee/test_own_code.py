"""Whose code computes: by place, and by shares of the time."""

import os
import sys
from pathlib import Path

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.machine.code_samples import CodeSamples
from kernelwright.referee.checks.own_code import (
    LIBRARY_CALL_S,
    MAX_OWN_BYTES,
    CodeOwner,
    MappedCode,
    mapped_code,
    own_code_problem,
    owner_of,
)
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings

OWN, LIBRARY, NEITHER = CodeOwner.OWN, CodeOwner.LIBRARY, CodeOwner.NEITHER
PLACES = {
    "": OWN,
    "/tmp/extensions/kernel.so": OWN,
    "/home/somebody/.cache/kernelwright/build/0123/4567.so": OWN,
    "/opt/cache/0123/built.so": OWN,
    "/venv/lib/python3/site-packages/torch/lib/libtorch_cpu.so": LIBRARY,
    "/usr/lib/x86_64-linux-gnu/libopenblas.so.0": LIBRARY,
    "/tmp/inductor/ab/kernel.so": LIBRARY,
    "/usr/lib/x86_64-linux-gnu/libc.so.6": NEITHER,
    "/usr/lib/x86_64-linux-gnu/libm.so.6": NEITHER,
    "/venv/lib/python3/site-packages/torch/lib/libgomp-1.so.1": NEITHER,
    f"{sys.prefix}/bin/python3.11": NEITHER,
    "[vdso]": NEITHER,
}


@pytest.mark.parametrize("path", PLACES)
def test_the_place_says_whose_code_it_is(path: str) -> None:
    code = [MappedCode(0x1000, 0x2000, path)]
    assert owner_of(0x1800, code, own_library="built.so") is PLACES[path]


def test_what_is_not_mapped_or_too_large_is_not_its_own() -> None:
    large = [MappedCode(0, MAX_OWN_BYTES + 1, "/tmp/copy_of_a_library.so")]
    assert owner_of(0x2000, []) is LIBRARY
    assert owner_of(0x2000, large) is LIBRARY


def test_the_code_of_this_process_is_found() -> None:
    code = mapped_code(os.getpid())
    assert any("python" in one.path for one in code)


@pytest.mark.parametrize(
    ("own", "library", "cpu_s", "is_problem"),
    [
        (0, 90, 1e-3, True),
        (40, 50, 1e-3, True),
        (50, 40, 1e-3, False),
        (0, 90, LIBRARY_CALL_S, False),
        (0, 10, 1.0, False),
    ],
)
def test_most_of_the_time_must_be_its_own(own: int, library: int, cpu_s: float, is_problem: bool) -> None:
    owners = [OWN] * own + [LIBRARY] * library + [NEITHER] * 9
    assert (own_code_problem(owners, cpu_s) is not None) == is_problem


@pytest.mark.slow
def test_library_work_that_an_own_kernel_hides_is_found(tmp_path: Path) -> None:
    settings = RefereeSettings(
        cache_dir=tmp_path, search_timing_s=0.2, policy=Policy(library_calls=LibraryCalls.FORBIDDEN)
    )
    (hidden,) = load_specimens(only="46_numpy_behind_a_factor")
    (switching,) = load_specimens(only="46_own_only_when_traced")
    honest = switching.source.replace("if self.n > 20", "if self.n > math.inf").replace(
        "import hashlib", "import hashlib\nimport math"
    )
    assert honest != switching.source
    with Referee(settings) as referee, referee.open(load_corpus_task("matmul")) as session:
        fine = session.evaluate(Candidate(source=honest))
        assert fine.is_verified, fine.detail
        try:
            CodeSamples(session._references[0].child.pid).close()
        except OSError as error:
            pytest.skip(f"no samples here: {error}")
        for specimen in (hidden, switching):
            found = session.evaluate(Candidate(source=specimen.source))
            assert found.check is Check.OWN_KERNEL and "in libraries" in found.detail, found.detail
