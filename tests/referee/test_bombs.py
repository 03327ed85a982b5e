"""Sources that would take a compiler or a parser for ever: a status comes of each, and no secret in it."""

import os
import re
from collections.abc import Iterator

import pytest
from tests.referee.conftest import POINTWISE

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker.builder import _compile

MODEL = "from torch import nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
RUN = '\nextern "C" int run() { return 0; }\n'
MACROS = "\n".join(f"#define A{i} A{i - 1} A{i - 1} A{i - 1} A{i - 1}" for i in range(1, 30))
COMPILED = {
    "an endless file": '#include "/dev/zero"',
    "another process's memory": '#include "/proc/1/environ"\n#error end',
    "a file of secrets": '#include "/etc/shadow"',
    "a file of secrets, by the assembler": 'asm(".incbin \\"/etc/shadow\\"");',
    "the users": '#include "/etc/passwd"',
    "macros that double": f"{MACROS}\n#define A0 1+\nint x = A29 1;",
    "an object of 100 GB": 'asm(".fill 100000000000, 1, 1");',
    "repetitions": 'asm(".rept 1000000000\\n.quad 1\\n.endr");',
    "a file that includes itself": "#include __FILE__",
    "words for a terminal": '#pragma message "\x1b[2J\x1b]0;x\x07\u202e"\n#error end',
}
ENDLESS = "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * i; return s; }"
FLAGS = ("-O1", "-fconstexpr-ops-limit=999999999999", "-fconstexpr-loop-limit=2147483647")
PARSED = {
    "a null byte": "x = '\0'\n",
    "a mark of byte order": "\ufeff",
    "a huge number": f"x = {'9' * 900_000}\n",
    "signs": f"x = {'-' * 400_000}1\n",
    "a chain": f"x = {'+'.join('1' * 300_000)}\n",
    "half a character": "x = '\ud800\n",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefereeSession]:
    settings = RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), build_timeout_s=6.0, build_memory_bytes=1 << 30
    )
    with Referee(settings) as referee, referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        yield session


def cpp(source: str, flags: tuple[str, ...] = ("-O1",)) -> Candidate:
    return Candidate(source=f"CPP_SOURCE = {source + RUN!r}\nCXX_FLAGS = {flags!r}\n{MODEL}")


@pytest.mark.slow
@pytest.mark.parametrize("case", COMPILED)
def test_a_compiler_is_stopped_and_tells_nothing(session: RefereeSession, case: str) -> None:
    found = session.evaluate(cpp(COMPILED[case]))
    assert found.status in (Status.COMPILE_ERROR, Status.TIMEOUT), found
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", found.detail + found.log)
    assert "root:" not in found.log and "PATH=" not in found.log


@pytest.mark.slow
def test_an_endless_constant_is_a_timeout(session: RefereeSession) -> None:
    found = session.evaluate(cpp(f"{ENDLESS}\nstatic_assert(f(1L << 60));", FLAGS))
    assert found.status is Status.TIMEOUT


@pytest.mark.slow
@pytest.mark.parametrize("case", PARSED)
def test_what_no_parser_takes_is_a_parse_error(session: RefereeSession, case: str) -> None:
    found = session.evaluate(Candidate(source=PARSED[case] + MODEL))
    assert found.status is Status.PARSE_ERROR and found.detail.isprintable()


def test_results_that_do_not_fit_are_the_sources_fault(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
    results = os.memfd_create("results")
    try:
        message = {
            "sources": {"a.txt": "x" * 90, "b.txt": "y" * 90},
            "command": ["true"], "results": ["a.txt", "b.txt"],
            "sizes": [100], "address_space_bytes": 1 << 30,
        }  # fmt: skip
        answer = _compile(message, results)
    finally:
        os.close(results)
    assert answer["exit_code"] == 1 and answer["made"] == {}
    assert "error: b.txt: 90 bytes are more than a build may return" in answer["log"]
