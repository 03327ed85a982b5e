"""Requests of every kind, made up by hypothesis."""

from typing import Any, get_args

from hypothesis import strategies as st

from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings, OutputMode, RoleModel, StreamMode
from kernelwright.core.options import EXPORT_FORMATS, IMPORT_FORMATS, SandboxTier
from kernelwright.core.places import AsSaved, AsText, AtPath, OfSuite
from kernelwright.core.policy import LibraryCalls
from kernelwright.core.request import (
    AuditRequest,
    BenchRequest,
    CheckRequest,
    ClaimsRequest,
    CompareRequest,
    EvaluateRequest,
    ExportRequest,
    ImportRequest,
    Request,
    RunRequest,
    SpaceRequest,
    SubmissionRequest,
    TuneRequest,
)
from kernelwright.core.task import Mode, TolerancePolicy, Workload

anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
words = anything.filter(bool)
plain = words.filter(lambda word: not word.startswith("-"))
names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
amounts = st.floats(0, 1e12, allow_nan=False)
counts = st.integers(1, 10**9)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Or nothing."""
    return st.none() | strategy


at_paths = words.map(lambda path: AtPath(path=path))
texts = st.builds(AsText, name=words.filter(lambda name: ":" not in name), source=anything)
places = at_paths | texts | names.map(lambda n: OfSuite(name=n)) | words.map(lambda path: AsSaved(path=path))
sources = st.lists(places | st.just(OfSuite()), max_size=3).map(tuple)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | anything
values = scalars | st.lists(scalars, max_size=3).map(tuple)
workloads = st.lists(
    st.builds(
        Workload,
        name=words,
        overrides=st.dictionaries(
            names | words, scalars | st.lists(scalars, max_size=3).map(tuple), max_size=3
        ),
    ),
    max_size=3,
    unique_by=lambda workload: workload.name,
).map(tuple)
budgets = st.builds(
    Budget,
    evaluations=maybe(counts), model_calls=maybe(counts), tokens=maybe(counts),
    usd=maybe(amounts), seconds=maybe(amounts),
)  # fmt: skip
model_names = st.from_regex(r"[a-z]{1,6}:[a-zA-Z0-9@:/._=-]{1,12}", fullmatch=True)
base_urls = st.sampled_from(["http://127.0.0.1:8000/v1", "https://models.example/v1"])
prices = st.none() | st.tuples(amounts, amounts)


@st.composite
def roles(draw: st.DrawFn) -> RoleModel:
    price = draw(prices)
    return RoleModel(
        model=draw(maybe(model_names)),
        base_url=draw(maybe(base_urls)),
        temperature=draw(maybe(amounts)),
        max_output_tokens=draw(maybe(counts)),
        usd_per_million_input=price[0] if price else None,
        usd_per_million_output=price[1] if price else None,
    )


@st.composite
def models(draw: st.DrawFn) -> ModelSettings:
    price = draw(prices)
    return ModelSettings(
        model=draw(model_names),
        base_url=draw(maybe(base_urls)),
        temperature=draw(maybe(amounts)),
        max_output_tokens=draw(st.integers(16, 10**6)),
        context_tokens=draw(maybe(st.integers(512, 10**7))),
        kernels_per_call=draw(st.integers(1, 9)),
        concurrency=draw(st.integers(1, 9)),
        tool_calls=draw(st.integers(0, 99)),
        timeout_s=draw(st.floats(1e-3, 1e6)),
        max_reply_bytes=draw(counts),
        output_mode=draw(st.sampled_from(get_args(OutputMode))),
        stream=draw(st.sampled_from(get_args(StreamMode))),
        roles=draw(st.dictionaries(names, roles(), max_size=3)),
        usd_per_million_input=price[0] if price else None,
        usd_per_million_output=price[1] if price else None,
        instrument=draw(st.booleans()),
    )


TASK = {"workloads": workloads, "mode": maybe(st.sampled_from(Mode))}
JUDGED = {
    "tolerance": maybe(st.sampled_from(TolerancePolicy)),
    "library_calls": st.sampled_from(LibraryCalls),
    "baselines": maybe(st.lists(words, min_size=1, max_size=3).map(tuple)),
}
SEARCH = {
    "target": words,
    "budget": budgets,
    "models": maybe(models()),
    "store": maybe(names),
    "workers": maybe(st.sampled_from(["ray", "ray://10.0.0.7:10001"])),
}
PLAYED = {"recipe": words, "team": words, "seed": st.integers(-100, 10**9)}
TASKS = {
    "sources": sources,
    "manifest": names,
    "groups": st.lists(words, max_size=2).map(tuple),
    "only": maybe(words),
    "limit": maybe(counts),
}
EXPERIMENT = {"name": maybe(words), "out": maybe(words)}
TEAMS = st.sampled_from(["expert", "llm", "expert+planner=llm", "llm+planner=expert,coder=expert"])


def a(kind: type[Request], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Request]:
    """Requests of a kind."""
    return st.builds(kind, require_sandbox=maybe(st.sampled_from(get_args(SandboxTier))), **fields)


run_requests = a(
    RunRequest, task=places, **TASK, **JUDGED, **{**SEARCH, "workers": st.none()}, **PLAYED,
    evaluator=maybe(words),
    cold=st.booleans(), findings=maybe(words), record=maybe(words), output=maybe(words), report=maybe(words),
    open_report=st.booleans(),
)  # fmt: skip
evaluate_requests = a(
    EvaluateRequest, task=places, kernels=st.lists(at_paths | texts, min_size=1, max_size=3).map(tuple),
    final=st.booleans(), device=words, **TASK, **JUDGED,
)  # fmt: skip
bench_requests = a(
    BenchRequest, **TASKS, **SEARCH, **PLAYED, **EXPERIMENT,
    library_calls=JUDGED["library_calls"], baselines=JUDGED["baselines"],
    stop_after=maybe(st.floats(1, 1e9)), quick=st.booleans(), profile=st.booleans(),
)  # fmt: skip
untimed = budgets.map(lambda budget: budget.model_copy(update={"seconds": None}))
compare_requests = a(
    CompareRequest, **TASKS, **{**SEARCH, "budget": untimed},
    **EXPERIMENT, recipes=st.lists(names, min_size=1, max_size=3).map(tuple),
    teams=st.lists(TEAMS, min_size=1, max_size=3).map(tuple),
    seeds=st.lists(st.integers(), min_size=1, max_size=3).map(tuple),
    memory=st.sampled_from(["cold", "warm"]), reuse=st.booleans(), record=maybe(words),
)  # fmt: skip
check_requests = a(
    CheckRequest, **TASKS, **TASK, full_size=st.booleans(), max_ms=st.floats(0.1, 1e9),
    max_mb=st.floats(1, 1e9), out=words, resume=st.booleans(),
)  # fmt: skip
space_requests = a(
    SpaceRequest, task=places, **TASK, target=words, sample=st.integers(0, 10**6), seed=PLAYED["seed"],
)  # fmt: skip
tune_requests = a(
    TuneRequest, task=places, **TASK, kernel=maybe(at_paths | texts),
    seconds=st.floats(1e-3, 1e6), target=words,
    seed=PLAYED["seed"], tolerance=JUDGED["tolerance"], library_calls=JUDGED["library_calls"],
    output=maybe(words), earlier=st.lists(words, max_size=2).map(tuple),
)  # fmt: skip
audit_requests = a(
    AuditRequest, families=st.lists(st.integers(), max_size=3).map(tuple), only=words, device=words,
    naive=st.booleans(), listing=st.booleans(), out=words, resume=st.booleans(),
)  # fmt: skip
import_requests = a(
    ImportRequest, format=st.sampled_from(IMPORT_FORMATS), source=plain, out=maybe(words),
)  # fmt: skip
export_requests = a(
    ExportRequest, format=st.sampled_from(EXPORT_FORMATS), task=places,
    kernels=st.lists(at_paths | texts, max_size=3).map(tuple), verdicts=maybe(words), author=words,
    device=plain, out=maybe(words), workloads=workloads, mode=TASK["mode"],
)  # fmt: skip
submission_requests = a(
    SubmissionRequest, folder=plain, problems=plain, limit=maybe(counts), full_size=st.booleans(),
    library_calls=JUDGED["library_calls"], device=plain, max_ms=st.floats(0.1, 1e9),
    max_mb=st.floats(1, 1e9), reference_times=maybe(words), out=maybe(words),
)  # fmt: skip
claims_requests = a(
    ClaimsRequest, folder=plain, library_calls=JUDGED["library_calls"], device=plain, out=maybe(words),
)  # fmt: skip
EVERY = {
    "optimize": run_requests,
    "evaluate": evaluate_requests,
    "bench": bench_requests,
    "compare": compare_requests,
    "check": check_requests,
    "space": space_requests,
    "tune": tune_requests,
    "audit": audit_requests,
    "convert import": import_requests,
    "submission": submission_requests,
    "convert export": export_requests,
    "verify-claims": claims_requests,
}
