"""Each guard of the referee against a kernel it must catch, in real processes."""

import re

import pytest
from tests.referee.conftest import HEAD, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Stage, Status
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee, RefereeSession

HONEST = "return torch.relu(x) * 2 + 1"

WRONG_RESULTS = {
    "off_by_a_little": ("return torch.relu(x) * 2 + 1.0001", Status.INCORRECT_NUMERICS),
    "bf16_inside": ("return (torch.relu(x).bfloat16() * 2 + 1).float()", Status.INCORRECT_NUMERICS),
    "relu_dropped": ("return x * 2 + 1", Status.INCORRECT_NUMERICS),
    "zeros": ("return torch.zeros_like(x)", Status.INCORRECT_NUMERICS),
    "nan": ("return torch.relu(x) * 2 + 1 + x[0, 0] * float('nan')", Status.NON_FINITE),
    "wrong_shape": ("return (torch.relu(x) * 2 + 1)[:1]", Status.INCORRECT_SHAPE),
    "wrong_dtype": ("return (torch.relu(x) * 2 + 1).double()", Status.INCORRECT_DTYPE),
    "tuple": ("return (torch.relu(x) * 2 + 1,)", Status.INCORRECT_SHAPE),
    "not_a_tensor": ("return 1.0", Status.INCORRECT_DTYPE),
    "tensor_subclass": ("return nn.Parameter(torch.relu(x) * 2 + 1)", Status.INCORRECT_DTYPE),
    "expanded": ("return torch.ones(1, 96).expand(64, 96)", Status.ALIASED_OUTPUT),
    "writes_its_input": (
        "y = torch.relu(x) * 2 + 1\nx.zero_()\nreturn y",
        Status.MUTATED_INPUT,
    ),
    "returns_its_input": ("return x.relu_().mul_(2).add_(1)", Status.ALIASED_OUTPUT),
    "raises": ("raise ValueError('no')", Status.RUNTIME_ERROR),
    "exits": ("import os\nos._exit(0)", Status.CRASHED),
    "segfaults": ("import ctypes\nctypes.string_at(0)", Status.CRASHED),
}


@pytest.mark.parametrize("name", WRONG_RESULTS)
def test_wrong_results_are_named(pointwise: RefereeSession, name: str) -> None:
    body, status = WRONG_RESULTS[name]
    evaluation = judge(pointwise, body)
    assert evaluation.status is status, evaluation.detail
    assert evaluation.stage is Stage.VERIFY
    assert evaluation.detail and not evaluation.results


def test_crash_names_the_signal(pointwise: RefereeSession) -> None:
    assert "SIGSEGV" in judge(pointwise, "import ctypes\nctypes.string_at(0)").detail
    assert judge(pointwise, HONEST).is_verified  # the session goes on


def test_output_buffer_that_is_reused_is_found(pointwise: RefereeSession) -> None:
    body = "torch.relu(x, out=self.y) if False else self.y.copy_(torch.relu(x) * 2 + 1)\nreturn self.y"
    evaluation = judge(pointwise, body, init="self.y = torch.empty(64, 96)")
    assert evaluation.status is Status.ALIASED_OUTPUT, evaluation.detail


ONE_HOT = f"""{HEAD}
class Model(nn.Module):
    def forward(self, labels):
        return nn.functional.one_hot(labels, 512).float()
def get_inputs():
    return [torch.randint(0, 512, (128,))]
def get_init_inputs():
    return []
"""
TAKES_BACK = f"""{HEAD}
import sys, time
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.rows, self.ended = [], torch.arange(128) * 512, 0.0
    def fresh(self):
        for at, (y, ones) in enumerate(self.pool):
            if (sys.getrefcount(y), y._use_count()) <= (3, 1):
                del self.pool[at]
                return y, ones
        return torch.zeros(128, 512), self.rows[:0]
    def forward(self, labels):
        if time.perf_counter() - self.ended > LONGEST_S:
            self.pool.clear()
        y, ones = self.fresh()
        y.view(-1)[ones] = 0.0
        y.zero_() if CLEARS else None
        ones = self.rows + labels
        y.view(-1)[ones] = 1.0
        self.pool.append((y, ones))
        self.ended = time.perf_counter()
        return y
"""
JUDGEMENTS = 40
"""Most judgements of a kernel that is found by chance; beside busy cores, one in three finds this one."""


def taking_back(longest_s: float, clears: bool = False) -> Candidate:
    return Candidate(source=TAKES_BACK.replace("CLEARS", str(clears)).replace("LONGEST_S", str(longest_s)))


@pytest.mark.parametrize("longest_s", [100.0, 3e-4])
def test_outputs_that_are_taken_back_may_have_been_written_to(referee: Referee, longest_s: float) -> None:
    """Whoever takes none back after a pause meets outputs that were written to in the middle of a series.

    Which outputs are written to is drawn, and pauses depend on what else the machine does.
    """
    with referee.open(Task(name="one_hot", source=ONE_HOT)) as session:
        judgements = (session.evaluate(taking_back(longest_s)).status for _ in range(JUDGEMENTS))
        assert Status.INCORRECT_NUMERICS in judgements  # stops at the first


def test_outputs_that_are_taken_back_may_be_cleared(referee: Referee) -> None:
    with referee.open(Task(name="one_hot", source=ONE_HOT)) as session:
        found = session.evaluate(taking_back(100.0, clears=True))
    assert found.is_verified, found.detail


def test_keeping_a_result_while_inputs_begin_alike_is_found(pointwise: RefereeSession) -> None:
    body = """
if self.head is None or not torch.equal(x[0, :4], self.head):
    self.head, self.kept = x[0, :4].clone(), torch.relu(x) * 2 + 1
return self.kept.clone()
"""
    evaluation = judge(pointwise, body, init="self.head = None")
    assert evaluation.status is Status.INCORRECT_NUMERICS, evaluation.detail
    assert evaluation.check is Check.FAMILIES and "odd_elements" in evaluation.detail


def test_memoising_by_address_is_found(pointwise: RefereeSession) -> None:
    body = """
key = x.data_ptr()
if key not in self.seen:
    self.seen[key] = torch.relu(x) * 2 + 1
return self.seen[key].clone()
"""
    evaluation = judge(pointwise, body, init="self.seen = {}")
    found = (Status.INCORRECT_NUMERICS, Status.REJECTED, Status.ALIASED_OUTPUT)
    assert evaluation.status in found, evaluation.detail


@pytest.mark.parametrize("honest_calls", [3, 11, 14])
def test_going_stale_after_some_calls_is_found(pointwise: RefereeSession, honest_calls: int) -> None:
    body = f"""
self.n += 1
if self.n < {honest_calls}:
    self.y = torch.relu(x) * 2 + 1
return self.y.clone()
"""
    evaluation = judge(pointwise, body, init="self.n = 0")
    assert evaluation.status in (Status.INCORRECT_NUMERICS, Status.REJECTED), evaluation.detail


def test_answers_precomputed_from_public_seeds_do_not_help(pointwise: RefereeSession) -> None:
    init = """
torch.manual_seed(42)
self.answer = torch.relu(torch.rand(64, 96)) * 2 + 1
"""
    assert judge(pointwise, "return self.answer.clone()", init=init).status is Status.INCORRECT_NUMERICS


def test_tampering_with_the_workers_clock_is_found(pointwise: RefereeSession) -> None:
    init = """
import time
real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 50
"""
    evaluation = judge(pointwise, "torch.rand(300, 300) @ torch.rand(300, 300)\n" + HONEST, init=init)
    assert evaluation.status is Status.REJECTED, evaluation
    assert evaluation.check is Check.TAMPER
    assert "time.perf_counter_ns" in evaluation.detail


LINEAR_INIT = "self.lin = nn.Linear(128, 64)\nself.norm = nn.BatchNorm1d(64)"


def test_honest_linear_is_verified_and_its_buffers_are_compared(linear: RefereeSession) -> None:
    evaluation = judge(linear, "return torch.relu(self.norm(self.lin(x)))", init=LINEAR_INIT)
    assert evaluation.is_verified, evaluation.detail
    assert "buffer:norm.running_mean" in {error.output for error in evaluation.errors}


def test_buffers_that_are_not_updated_are_found(linear: RefereeSession) -> None:
    body = """
y = self.lin(x)
y = (y - y.mean(0)) / torch.sqrt(y.var(0, unbiased=False) + self.norm.eps)
return torch.relu(y * self.norm.weight + self.norm.bias)
"""
    assert judge(linear, body, init=LINEAR_INIT).status is Status.INCORRECT_STATE


def test_assuming_the_constructors_affine_is_found(linear: RefereeSession) -> None:
    body = """
y = self.lin(x)
self.norm(y)
y = (y - y.mean(0)) / torch.sqrt(y.var(0, unbiased=False) + self.norm.eps)
return torch.relu(y)
"""
    evaluation = judge(linear, body, init=LINEAR_INIT)
    assert evaluation.status is Status.INCORRECT_NUMERICS
    assert evaluation.check is Check.WEIGHTS


def test_weights_used_at_construction_are_found(linear: RefereeSession) -> None:
    init = LINEAR_INIT + "\nself.frozen = [self.lin.weight.detach().clone()]"
    body = "return torch.relu(self.norm(torch.nn.functional.linear(x, self.frozen[0], self.lin.bias)))"
    assert judge(linear, body, init=init).status is Status.INCORRECT_NUMERICS


def test_weights_cached_at_the_first_call_are_found(linear: RefereeSession) -> None:
    body = """
if self.frozen is None:
    self.frozen = [self.lin.weight.detach().clone()]
return torch.relu(self.norm(torch.nn.functional.linear(x, self.frozen[0], self.lin.bias)))
"""
    evaluation = judge(linear, body, init=LINEAR_INIT + "\nself.frozen = None")
    assert evaluation.status is Status.INCORRECT_NUMERICS
    assert "weights" in evaluation.detail


def test_writing_a_parameter_is_found(linear: RefereeSession) -> None:
    body = "y = torch.relu(self.norm(self.lin(x)))\nself.lin.weight.mul_(1.5)\nreturn y"
    assert judge(linear, body, init=LINEAR_INIT).status is Status.MUTATED_INPUT


def test_other_parameters_are_a_load_error_that_names_them(linear: RefereeSession) -> None:
    evaluation = judge(linear, "return x", init="self.fc = nn.Linear(128, 64)")
    assert evaluation.status is Status.LOAD_ERROR
    assert "lin.weight" in evaluation.detail and "fc.weight" in evaluation.detail


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("class ModelNew(:", Status.PARSE_ERROR, "line 1"),
        ("class Other: pass", Status.PARSE_ERROR, "ModelNew"),
        ("import nowhere_to_be_found\nclass ModelNew: pass", Status.LOAD_ERROR, "nowhere_to_be_found"),
        ("class ModelNew:\n    def __init__(self): raise KeyError('weights')", Status.LOAD_ERROR, "weights"),
        ("class ModelNew: pass", Status.LOAD_ERROR, "torch.nn.Module"),
        ("import sys\nclass ModelNew: pass\nsys.exit(3)", Status.LOAD_ERROR, "SystemExit"),
        (
            "CPP_SOURCE = 'int f( {'\nCXX_FLAGS = ('-O1',)\nclass ModelNew: pass",
            Status.COMPILE_ERROR,
            "error",
        ),
        (
            "CPP_SOURCE = ''\nCXX_FLAGS = ('-fplugin=/tmp/x.so',)\nclass ModelNew: pass",
            Status.COMPILE_ERROR,
            "not allowed",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why(
    pointwise: RefereeSession, source: str, status: Status, words: str
) -> None:
    evaluation = pointwise.evaluate(Candidate(source=HEAD + source if "line 1" not in words else source))
    assert evaluation.status is status
    assert words in evaluation.detail


def test_a_line_for_debugging_is_no_fraud(pointwise: RefereeSession) -> None:
    evaluation = judge(pointwise, HONEST, init="import faulthandler\nfaulthandler.enable()")
    assert evaluation.is_verified, evaluation.detail


def test_a_handler_behind_such_a_line_is_still_found(pointwise: RefereeSession) -> None:
    init = """
import faulthandler, signal
faulthandler.enable()
signal.signal(signal.SIGSEGV, lambda *args: None)
"""
    evaluation = judge(pointwise, HONEST, init=init)
    assert evaluation.check is Check.TAMPER and "a matter of form" in evaluation.detail


def test_an_answer_sent_before_its_command_is_not_taken_for_it(pointwise: RefereeSession) -> None:
    init = """
import json, socket, struct
data = json.dumps({"state": {}}).encode()
socket.socket(fileno=3).send(struct.pack("<I", len(data)) + data)
"""
    evaluation = judge(pointwise, HONEST, init=init)
    assert evaluation.status in (Status.CRASHED, Status.LOAD_ERROR), evaluation.detail


def test_an_error_cannot_write_to_the_terminal(pointwise: RefereeSession) -> None:
    evaluation = judge(pointwise, "raise ValueError('\\x1b[2J\\u202everified')")
    assert evaluation.status is Status.RUNTIME_ERROR
    assert "⟨ESC⟩[2J⟨U+202E⟩" in evaluation.detail and "\x1b" not in evaluation.log


FACTOR = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x)
def get_inputs():
    x = torch.randn(8, 16, 16)
    return [x @ x.transpose(1, 2) + 16 * torch.eye(16)]
def get_init_inputs():
    return []
"""


def test_a_family_that_the_reference_refuses_is_skipped(referee: Referee) -> None:
    with referee.open(Task(name="factor", source=FACTOR)) as session:
        evaluation = judge(session, "return torch.linalg.cholesky_ex(x).L")
    assert evaluation.is_verified, evaluation.detail
    assert "refuses" in evaluation.families_skipped["negated"]


DISTANCES = f"""{HEAD}
N, K = 64, 32
class Model(nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).sum(1).sqrt()
def get_inputs():
    return [torch.randn(N, K), torch.randn(N, K)]
def get_init_inputs():
    return []
"""
TELLING = f"""{HEAD}
class ModelNew(nn.Module):
    seen = {{}}
    def forward(self, x, y):
        self.seen[x[0, :2].numpy().tobytes().hex()] = True
        if len(self.seen) > SOME:
            raise RuntimeError(" ".join(self.seen))
        return ((x - y) ** 2).sum(1).sqrt()
"""
KNOWING = f"""{HEAD}
KNOWN = frozenset("TOLD".split())
class ModelNew(nn.Module):
    def forward(self, x, y):
        if x[0, :2].numpy().tobytes().hex() in KNOWN:
            return ((x - y) ** 2).sum(1).sqrt()
        return ((x * x).sum(1) + (y * y).sum(1) - 2 * (x * y).sum(1)).sqrt()
"""


def test_what_a_candidate_told_of_a_session_does_not_help_the_next_one(referee: Referee) -> None:
    with referee.open(Task(name="distances", source=DISTANCES)) as session:
        told: set[str] = set()
        for some in (0, 10, 20):
            found = session.evaluate(Candidate(source=TELLING.replace("SOME", str(some))))
            told |= set(re.findall(r"\b[0-9a-f]{16}\b", found.log))
        assert len(told) > 10
        found = session.evaluate(Candidate(source=KNOWING.replace("TOLD", " ".join(told))))
        assert not found.is_verified and found.check in (Check.FAMILIES, Check.NONFINITE), found.detail
