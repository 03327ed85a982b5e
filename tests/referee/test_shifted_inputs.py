"""A kernel must be right where inputs begin at addresses that only views have, too."""

import platform

import numpy as np
import pytest
from tests.referee.conftest import HEAD, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Evaluation, Stage, Status
from kernelwright.core.task import Task
from kernelwright.referee.checks.verify import Verification
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.input_samples import AROUND, SampleLayout
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.session.shared_memory import SharedMemory
from kernelwright.referee.session.shifted_inputs import ShiftedInputs

WHERE = "on inputs that begin 8 bytes after a multiple of 64 (views such as `x[1:]` do): "
HONEST = "return torch.relu(x) * 2 + 1"
VECTORS = """
typedef float vec __attribute__((vector_size(16), aligned(ALIGNED), may_alias));
extern "C" void run(const float* x, float* y, long n) {
  for (long i = 0; i < n; i += 4) {
    vec v = *(const vec*)(x + i);
    *(vec*)(y + i) = (v < 0 ? vec{} : v) * 2 + 1;
  }
}
"""
LINE = """
extern "C" void run(const float* x, float* y, long n) {
  const float* line = (const float*)((unsigned long)x & ~63ul);
  for (long i = 0; i < n; i++) y[i] = (line[i] < 0 ? 0 : line[i]) * 2 + 1;
}
"""
OF_TWO = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, y):
        return (x * y).abs() + y.real
def get_inputs():
    return [torch.rand(48, 31, dtype=torch.complex128), torch.rand(48, 31, dtype=torch.complex64)]
def get_init_inputs():
    return []
"""


def judge_compiled(session: RefereeSession, code: str) -> Evaluation:
    """Evaluate a pointwise kernel in C++."""
    source = f"""{HEAD}
import ctypes, hashlib, os
CPP_SOURCE = r'''{code}'''
CXX_FLAGS = ("-O2",)
key = hashlib.sha256("\\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
"""
    return session.evaluate(Candidate(source=source))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="such loads fault on x86 only")
def test_loads_of_aligned_vectors_are_found(pointwise: RefereeSession) -> None:
    found = judge_compiled(pointwise, VECTORS.replace("ALIGNED", "16"))
    assert (found.status, found.stage, found.check) == (Status.CRASHED, Stage.VERIFY, Check.RAISED)
    assert found.detail.startswith(WHERE) and "SIGSEGV" in found.detail


def test_loads_of_vectors_at_any_address_are_verified(pointwise: RefereeSession) -> None:
    evaluation = judge_compiled(pointwise, VECTORS.replace("ALIGNED", "4"))
    assert evaluation.is_verified, evaluation.detail


def test_reading_from_the_begin_of_the_line_is_found(pointwise: RefereeSession) -> None:
    found = judge_compiled(pointwise, LINE)
    assert found.status in (Status.INCORRECT_NUMERICS, Status.NON_FINITE), found.detail
    assert found.check is Check.ORACLE and found.detail.startswith(WHERE + "out0 on ")


BESIDE = {
    "raises": ("raise ValueError('no')", Status.RUNTIME_ERROR),
    "another shape": ("return (torch.relu(x) * 2 + 1)[:1]", Status.INCORRECT_SHAPE),
    "writes its input": ("y = torch.relu(x) * 2 + 1\nx.fill_(7.0)\nreturn y", Status.MUTATED_INPUT),
    "writes beside its input": (
        "import ctypes\nctypes.memset(x.data_ptr() - 4, 0, 4)\n" + HONEST, Status.MUTATED_INPUT,
    ),
    "returns its input": ("return x", Status.ALIASED_OUTPUT),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_all_else_is_checked_there_too(pointwise: RefereeSession, name: str) -> None:
    body, status = BESIDE[name]
    wrong = "\n".join(f"    {line}" for line in body.splitlines())
    found = judge(pointwise, f"if x.data_ptr() % 64:\n{wrong}\n{HONEST}")
    assert (found.status, found.stage) == (status, Stage.VERIFY), found.detail
    assert found.detail.startswith(WHERE), found.detail


def test_there_is_one_such_call_and_all_later_ones_are_elsewhere(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[bool] = []
    original = Verification.check_all

    def told(self: Verification, draws: object, *, is_shifted: bool = False) -> None:
        original(self, draws, is_shifted=is_shifted)  # type: ignore[arg-type]
        checked.append(is_shifted)
        assert "shifted" not in self._contestant._calls._numbers
        assert list(self._contestant.slots) == list(self._contestant._calls._numbers)

    monkeypatch.setattr(Verification, "check_all", told)
    init = "self.seen = []"
    body = f"""
if x.data_ptr() % 64:
    self.seen.append(x.data_ptr() % 4096)
assert self.seen in ([], [8]), self.seen
{HONEST}
"""
    evaluation = judge(pointwise, body, init=init)
    assert evaluation.is_verified, evaluation.detail
    assert set(checked) == {True}  # more than one where a busy machine made it start again


def test_buffers_that_change_per_call_stay_right(
    linear: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    original = CandidateProcess.bind_in_first

    def told(self: CandidateProcess, name: str, args: object) -> SharedMemory:
        seen.append(name)
        return original(self, name, args)

    monkeypatch.setattr(CandidateProcess, "bind_in_first", told)
    init = "self.lin = nn.Linear(128, 64)\nself.norm = nn.BatchNorm1d(64)"
    honest = "return torch.relu(self.norm(self.lin(x)))"
    evaluation = judge(linear, honest, init=init)
    assert evaluation.is_verified and set(seen) == {"shifted"}, evaluation.detail
    twice = f"if x.data_ptr() % 64:\n    self.norm(self.lin(x))\n{honest}"
    found = judge(linear, twice, init=init)
    assert found.status is Status.INCORRECT_STATE and found.detail.startswith(WHERE), found.detail


def test_items_larger_than_the_shift_keep_their_alignment(referee: Referee) -> None:
    with referee.open(Task(name="of_two", source=OF_TWO)) as session:
        source = OF_TWO.replace("class Model(", "class ModelNew(").replace(
            "        return",
            "        assert (x.data_ptr() % 64, y.data_ptr() % 64) in ((0, 0), (16, 8))\n        return",
        )
        evaluation = session.evaluate(Candidate(source=source))
    assert evaluation.is_verified, evaluation.detail


def test_the_memory_around_shifted_inputs_is_filled() -> None:
    first = {"dtype": "float32", "shape": [3], "stride": [1], "offset": 0}
    second = {"dtype": "complex128", "shape": [2, 2], "stride": [0, 2], "offset": 8192}
    args = {"tuple": [{"tensor": first}, {"list": [{"tensor": second}, 2]}]}
    layout = SampleLayout(
        args=args, arg_slots=(first, second), args_bytes=16384, init=None, state={},
        parameters=frozenset(), state_bytes=0, is_train=False,
    )  # fmt: skip
    inputs = SharedMemory(16384)
    inputs.bytes[:] = np.arange(16384) % 200
    given = ShiftedInputs(layout, inputs)
    assert [slot["offset"] for slot in given.slots] == [8, 8192 + 16] and given.by == 8
    assert given.memory.bytes[8:20].tolist() == inputs.bytes[:12].tolist()
    assert given.memory.bytes[8208 : 8208 + 48].tolist() == inputs.bytes[8192 : 8192 + 48].tolist()
    assert int((given.memory.bytes != AROUND).sum()) == 12 + 48
    assert first["offset"] == 0
