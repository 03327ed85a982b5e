"""A scripted model that answers every role plausibly, and a referee to go with it. For tests and recordings.

It knows one task, the prompts' worked example, and writes kernels for it that differ in one constant. It
measures nothing and understands nothing; no command of the project uses it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.agents.llm.answers import find_blocks
from kernelwright.agents.llm.span_markers import BEGINS, ENDS
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.targets.registry import all_targets
from kernelwright.testing.fake_run import FakeReferee, fake_evaluation
from lab.servers.bad_server import Request

_EXAMPLES = {
    target.name.language: find_blocks(target.prompting.file("example.md").read_text(encoding="utf-8"))
    for target in all_targets()
    if target.prompting is not None
}
REFERENCE = _EXAMPLES["cpp"][0].text
TASK = Task(name="relu_sum", source=REFERENCE)
N_BROKEN = 3
"""Of every so many kernels that carry out a plan or rewrite a verified one, the first is wrong."""


@dataclass(frozen=True)
class _Dialect:
    """How kernels of one language differ from the worked example."""

    changes: Mapping[str, str]
    """Text of the example -> text with the constant in it, its value as ``{}``."""
    right: str
    wrong: str
    place: str
    """A name of the file where the kernel is."""


_SIZES = "static const int ROWS = 512, WIDTH = 1024;"
_CUDA_SIZES = "static const int WIDTH = 1024, THREADS = 256;"
_DIALECTS = {
    "cpp": _Dialect(
        {_SIZES: _SIZES + "\nstatic const int CHUNK = {};", "schedule(static)": "schedule(static, CHUNK)"},
        "sum += v < 0.0f",
        "sum -= v < 0.0f",
        "CPP_SOURCE",
    ),
    "triton": _Dialect(
        {"\n\n@triton.jit": "\nCHUNK = {}\n\n\n@triton.jit"}, " tl.sum(v", " -tl.sum(v", "relu_sum"
    ),
    "cuda": _Dialect(
        {_CUDA_SIZES: _CUDA_SIZES + "\nstatic const int CHUNK = {};"},
        "sum += v < 0.0f",
        "sum -= v < 0.0f",
        "CUDA_SOURCE",
    ),
}
_MARKED = re.compile(r"^(?:CHUNK =|.*(?:static const int CHUNK|return torch\.relu)).*$", re.M)
_MARKED_OF_EXPERT = re.compile(r"^ +\w+ = .*relu.*$", re.M)


def kernel(chunk: int, *, is_right: bool = True, language: str = "cpp") -> str:
    """Return a kernel for TASK as a model writes it; ``chunk`` rows are handed to a thread at a time.

    On a GPU the constant is there, and nothing comes of it.
    """
    text, dialect = _EXAMPLES[language][1].text, _DIALECTS[language]
    for old, new in dialect.changes.items():
        text = text.replace(old, new.replace("{}", str(chunk)))
    return text if is_right else text.replace(dialect.right, dialect.wrong)


def block(source: str) -> str:
    """Return the source as an answer's Python block."""
    return f"```python\n{source.strip()}\n```"


def scripted_verdict(source: str) -> float | Status:
    """Return a made-up verdict: wrong kernels fail, right ones differ in speed by their chunk."""
    if any(dialect.wrong in source for dialect in _DIALECTS.values()):
        return Status.INCORRECT_NUMERICS
    chunk = re.search(r"CHUNK = (\d+)", source)
    return 1.0 if chunk is None else 1.5 + (7 * int(chunk[1]) % 11) / 10


class ScriptedReferee(FakeReferee):
    """Verdicts by rule instead of by table."""

    def __init__(self, verdict: Callable[[str], float | Status] = scripted_verdict) -> None:
        super().__init__({})
        self._verdict = verdict

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Apply the rule."""
        assert self.task is not None
        self.asked.append((candidate.source, final))
        return fake_evaluation(candidate, self.task, self._verdict(candidate.source), final=final)


class PlayingModel:
    """Answers requests: ``BadServer(answers(PlayingModel()))``. The same questions get the same answers.

    Args:
        language: Of the kernels that it writes.
    """

    def __init__(self, language: str = "cpp") -> None:
        self._language = language
        self._n_kernels = 0
        self._n_changes = 0

    def __call__(self, request: Request) -> str:
        """Return the answer of the role that asks, told by the line that says what it does."""
        texts = [_text(message) for message in request.body.get("messages", ())]
        system, user = (texts[0], texts[1]) if len(texts) > 1 else ("", "")
        for opening, answer in _ROLES.items():
            if f"\n{opening}" in f"\n{system}":
                several = re.search(r"^Give up to (\d+) different kernels", system, re.M)
                said = [answer(self, system, user) for _ in range(int(several[1]) if several else 1)]
                return "\n\n".join(one if isinstance(one, str) else json.dumps(one) for one in said)
        return "ready"

    # -- roles that write ----------------------------------------------------------------------------

    def seed(self, system: str, user: str) -> str:
        """Answer the Generator."""
        return f"Approach: one pass over x.\n\n{self._new_kernel()}"

    def carry_out(self, system: str, user: str) -> str:
        """Answer the Coder who is given a plan."""
        found = re.search(r"each of its (\d+) steps", system)
        account = [f"{n} -> `relu_sum`: as planned" for n in range(1, int(found[1]) + 1 if found else 2)]
        if "no marker may be left" in system:
            place = _DIALECTS[self._language].place
            account.append(f"outside -> `{place}`: the kernel and what calls it")
        return "\n".join([*account, "", self._new_kernel(may_break=True)])

    def choose_and_write(self, system: str, user: str) -> str:
        """Answer whoever plans and writes in one answer."""
        move = self._move(system, user)
        lines = [
            f"Skill: {move['skill']}",
            f"Why: {move['why']}",
            f"Evidence: {'; '.join(move['evidence'])}",
            f"Expects: {move['expects']}",
            f"Differs: {move['differs']}",
            f"1 -> `relu_sum`: {move['steps'][0]}",
        ]
        return "\n".join([*lines, "", self._new_kernel(may_break=True)])

    def rewrite(self, system: str, user: str) -> str:
        """Answer the Coder who is given a kernel that is right, or none."""
        return (
            f"Change: another chunk of rows, attempt {self._n_kernels}.\n\n{self._new_kernel(may_break=True)}"
        )

    def mend(self, system: str, user: str) -> str:
        """Answer whoever is given a kernel that fails."""
        cause = "" if "has been diagnosed" in system else "Cause: `relu_sum` subtracts.\n"
        return f"{cause}Change: the sum adds again, attempt {self._n_kernels}.\n\n{self._new_kernel()}"

    def _new_kernel(self, *, may_break: bool = False) -> str:
        self._n_kernels += 1
        self._n_changes += may_break
        is_right = not may_break or self._n_changes % N_BROKEN != 1
        return block(kernel(self._n_kernels, is_right=is_right, language=self._language))

    # -- roles that plan -----------------------------------------------------------------------------

    def plan(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Planner."""
        return self._move(system, user)

    def plan_with_anchors(self, system: str, user: str) -> dict[str, Any]:
        """Answer STARK's plan agent: the line to change is marked in the base's source."""
        base = re.search(r"^## The base, .*?^```python\n(.*?)^```", user, re.M | re.S)
        source = base[1] if base else ""
        marked = _MARKED if _MARKED.search(source) else _MARKED_OF_EXPERT
        anchored = marked.sub(lambda line: f"{BEGINS}\n{line[0]}\n{ENDS}", source, count=1)
        return {**self._move(system, user), "anchored_source": anchored}

    def design(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Designer."""
        rating = {"gain_low": 0.0, "gain_high": 0.2, "innovation": 0.5}
        experiments = [{**self._move(system, user, n), **rating} for n in range(5)]
        return {"avenues": [f"avenue {n}" for n in range(10)], "experiments": experiments}

    def populate(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Breeder's first question."""
        count = re.search(r"^- (\d+) plans", system, re.M)
        plans = [{"moves": [self._move(system, user, n)]} for n in range(int(count[1]) if count else 2)]
        return {"plans": plans}

    def cross(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Breeder's other question: a move of each parent and a new one."""
        labels = re.findall(r"^- ([ab]\d+):", user, re.M)
        kept = [next((name for name in labels if name.startswith(parent)), None) for parent in "ab"]
        moves = [{"skill": name, "why": "it helped"} for name in kept if name is not None]
        return {"moves": [*moves, self._move(system, user)]}

    def _move(self, system: str, user: str, n: int = 0) -> dict[str, Any]:
        """Return the nth of several changes that were not proposed before."""
        number = self._n_kernels + 1 + n
        names = _names(system, user)
        fact = re.search(r"^- (run\.latency_ms = \S+)", user, re.M) or re.search(
            r"^- ([\w.]+ = \d[\d.e+-]*)", user, re.M
        )
        return {
            "skill": names[n % len(names)],
            "why": "threads share the rows unevenly",
            "evidence": [fact[1]] if fact else [],
            "expects": "run.latency_ms -10 %",
            "steps": [f"Hand rows to threads {number} at a time in the loop of `relu_sum`."],
            "differs": f"{number} rows at a time",
        }

    # -- roles that read -----------------------------------------------------------------------------

    def diagnose(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Diagnoser with the status as the quote."""
        status = re.search(r"^Status: .*$", user, re.M)
        return {
            "critical_issue": "the sum has the wrong sign",
            "quotes": [status[0] if status else "nothing"],
            "root_cause": "`relu_sum` subtracts where it has to add",
            "minimal_fix": f"add instead of subtracting, attempt {self._n_kernels}",
        }

    def select(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Selector: the newest verified kernel, compared with the oldest."""
        ids = list(dict.fromkeys(re.findall(r"^\| (\w+) \| [\w -]+ \| verified \|", user, re.M)))
        return {"base": ids[-1] if ids else "", "reference": ids[0] if ids else "", "why": "newest, oldest"}

    def align(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Aligner: everything was done as announced."""
        return {"items": [{"number": n, "is_carried_out": True} for n in range(1, 13)]}

    def read(self, system: str, user: str) -> dict[str, Any]:
        """Answer the Analyst."""
        return {"structure": "reduction", "passes_over_memory": 1, "is_parallel": True}


_Answer = Callable[[PlayingModel, str, str], str | dict[str, Any]]
_ROLES: dict[str, _Answer] = {
    "You write the first kernels": PlayingModel.seed,
    "You write kernels. You are given": PlayingModel.carry_out,
    "You make a kernel faster": PlayingModel.choose_and_write,
    "You improve kernels": PlayingModel.rewrite,
    "You write fast kernels": PlayingModel.rewrite,
    "You repair": PlayingModel.mend,
    "You plan the next change of a kernel and mark": PlayingModel.plan_with_anchors,
    "You plan the next change of a kernel.": PlayingModel.plan,
    "You design experiments": PlayingModel.design,
    "You compose optimisation plans": PlayingModel.populate,
    "You cross optimisation plans": PlayingModel.cross,
    "You find out why kernels fail": PlayingModel.diagnose,
    "You choose what to experiment on": PlayingModel.select,
    "You compare a kernel's source": PlayingModel.align,
    "You read kernels": PlayingModel.read,
}
"""How the line of a prompt begins that says what a role does -> how it is answered."""


def _names(system: str, user: str) -> list[str]:
    """Return what a move's ``skill`` may be: a label where only labels are on offer."""
    system += user.rpartition("## The question")[2]
    label = re.search(r"`skill` is the label, e\.g\. `(\w+)`; ", system)
    if label is not None and "one of:" not in system:
        return [label[1]]
    offered = re.search(r"one of: ([\w, -]+?)[.;]", system)
    return offered[1].split(", ") if offered else ["free"]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
