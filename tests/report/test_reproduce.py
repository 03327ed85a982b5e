"""A report's command: it starts the same run, models and budgets included."""

import shlex

from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings, RoleModel
from kernelwright.core.places import AsSaved, OfSuite
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.request import RunRequest
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.report.reproduce import command_line, request_of


def spec(**changes: object) -> RunSpec:
    task = Task(name="relu", source="x", path="my models/relu.py")
    return RunSpec.model_validate({"task": task, "recipe": "stark"} | changes)


def options(command: str) -> dict[str, list[str]]:
    words = shlex.split(command)[3:]
    found: dict[str, list[str]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        found.setdefault(name, []).append(value)
    return found


def test_the_file_is_one_word_whatever_its_name() -> None:
    assert shlex.split(command_line(spec()))[:3] == ["kernelwright", "optimize", "my models/relu.py"]


def test_an_experts_run_names_no_model() -> None:
    said = options(command_line(spec(budget=Budget(evaluations=8))))
    assert said["--budget-evaluations"] == ["8"] and "--model" not in said and "--library-calls" not in said


def test_models_roles_prices_and_budgets_are_said() -> None:
    models = ModelSettings(
        model="openai:small",
        base_url="http://127.0.0.1:8000/v1",
        context_tokens=4096,
        roles={
            "planner": RoleModel(model="openai:large", temperature=0.8),
            "coder": RoleModel(temperature=0.1),
        },
        usd_per_million_input=1.5,
        usd_per_million_output=2.0,
    )
    budget = Budget(model_calls=60, tokens=1_000_000, usd=0.5, seconds=90.5)
    said = options(command_line(spec(team="llm", models=models, budget=budget)))
    assert said["--model"] == ["openai:small"] and said["--base-url"] == ["http://127.0.0.1:8000/v1"]
    assert said["--role-model"] == ["planner=openai:large@0.8", "coder=@0.1"]
    assert said["--price"] == ["1.5,2"] and said["--context-tokens"] == ["4096"]
    assert (said["--budget-calls"], said["--budget-tokens"]) == (["60"], ["1000000"])
    assert (said["--budget-usd"], said["--budget-seconds"]) == (["0.5"], ["90.5"])


def test_workloads_and_a_policy_are_said() -> None:
    task = Task(name="relu", source="x", workloads=(Workload(name="wide", overrides={"N": 8}),))
    said = options(command_line(spec(task=task, policy=Policy(library_calls=LibraryCalls.FORBIDDEN))))
    assert said["--workload"] == ["wide:N=8"] and said["--library-calls"] == ["forbidden"]


def test_nothing_that_was_asked_for_is_left_out() -> None:
    asked = RunRequest(
        task=OfSuite(name="27_Softmax"), baselines=("eager",), evaluator="drop:there", output="k.py",
        report="r.html", record="rec", require_sandbox="landlock",
    )  # fmt: skip
    task = Task(name="27_Softmax", source="x", mode=Mode.EVAL)
    found = request_of(spec(task=task, baselines=("eager",), request=asked, is_cold=True))
    assert found == asked.model_copy(
        update={"recipe": "stark", "mode": Mode.EVAL, "tolerance": TolerancePolicy.STRICT}
    )
    assert "--baseline eager" in command_line(spec(baselines=("eager",)))
    assert "--cold" in command_line(spec(is_cold=True))


def test_a_live_modules_task_is_where_it_was_saved() -> None:
    task = Task(name="Gate", source="x", artifact="/data/modules/abc.pkl")
    assert request_of(spec(task=task)).task == AsSaved(path=f"/data/modules/abc.{task.id}.json")
