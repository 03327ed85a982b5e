"""A KernelBench run in and out: a folder of generations with its ``eval_results.json``."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation, Stage
from kernelwright.core.frozen import Frozen
from kernelwright.formats.claims import CLAIMS, PublishedClaim, claims_text
from kernelwright.formats.package import Converted, Package, read_json, read_text
from kernelwright.formats.sources import require_python
from kernelwright.tasks.kernelbench import task_number

FILE = re.compile(r"level_(?P<level>\d+)_problem_(?P<problem>\d+)_sample_(?P<sample>\d+)_kernel\.py")
FORM = "level_L_problem_P_sample_S_kernel.py"
RESULTS = "eval_results.json"
NOT_COMPILED = frozenset({Stage.GUARD, Stage.BUILD, Stage.LOAD})


class GenerationId(NamedTuple):
    """Which sample of which problem."""

    level: int
    problem: int
    sample: int

    @property
    def file(self) -> str:
        """Its name in a run's folder."""
        return f"level_{self.level}_problem_{self.problem}_sample_{self.sample}_kernel.py"


class BenchClaim(Frozen):
    """What KernelBench's own harness said of a sample."""

    compiled: bool
    correctness: bool
    runtime: float = -1.0
    """Milliseconds; -1: not measured."""


class Submission(NamedTuple):
    """Somebody's run."""

    kernels: dict[GenerationId, str]
    claims: dict[GenerationId, BenchClaim]
    """As far as the folder has results."""


def read_submission(folder: Path, unread: list[str] | None = None) -> Submission:
    """Read a run's folder.

    Args:
        folder: with generations, and results where there are some.
        unread: gets a line for each generation that is no text; None: the first of them ends the reading.

    Raises:
        UserError: the folder holds no generations, or a file has another form.
    """
    kernels = {}
    for file in sorted(folder.glob("*.py")) if folder.is_dir() else ():
        match = FILE.fullmatch(file.name)
        if not match:
            continue
        try:
            kernels[GenerationId(*map(int, match.group("level", "problem", "sample")))] = read_text(file)
        except UserError as error:
            if unread is None:
                raise
            unread.append(str(error))
    if not kernels:
        raise UserError("; ".join([f"{folder}: no {FORM} there; name a run's folder", *(unread or ())]))
    levels = {one.level for one in kernels}
    path = folder / RESULTS
    claims = _claims(path, levels) if path.exists() else {}
    return Submission(dict(sorted(kernels.items())), claims)


def _claims(path: Path, levels: set[int]) -> dict[GenerationId, BenchClaim]:
    """Return the results by sample; the file names no level, so a run of several has none to give."""
    document = read_json(path)
    if len(levels) != 1 or not isinstance(document, dict):
        raise UserError(f"{path}: results of a folder with {len(levels)} levels cannot be told apart")
    (level,) = levels
    found = {}
    for problem, entries in document.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            try:
                key = GenerationId(level, int(problem), int(entry["sample_id"]))
                found[key] = BenchClaim(
                    compiled=bool(entry["compiled"]),
                    correctness=bool(entry["correctness"]),
                    runtime=float(entry.get("runtime") or -1.0),
                )
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"{path}: problem {problem} has an entry of another form ({error!r})"
                ) from error
    return found


def read_reference_times(path: Path) -> dict[tuple[int, str], float]:
    """Return their milliseconds of the references by level and name of the problem.

    Raises:
        UserError: the file is none of KernelBench's timing files.
    """
    document = read_json(path)
    try:
        return {
            (int(level.removeprefix("level")), name.removesuffix(".py")): float(stats["mean"])
            for level, problems in document.items()
            for name, stats in problems.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: no timing file of KernelBench ({error!r})") from error


def read_kernelbench(path: Path) -> Converted:
    """Return a run's kernels as files, and its claims; the problems that they name lie elsewhere."""
    notes: list[str] = []
    submission = read_submission(path, notes)
    notes += _broken(submission)
    files = {key.file: source for key, source in submission.kernels.items()}
    claims = [
        PublishedClaim(kernel=key.file, correct=claim.correctness, source=f"{path.name}/{RESULTS}")
        for key, claim in submission.claims.items()
        if key in submission.kernels
    ]
    if claims:
        files[CLAIMS] = claims_text(claims)
        notes.append(
            f"{CLAIMS}: its claims name no task and no speedup, which a run does not hold; "
            "kernelwright submission adds the problems"
        )
    return Converted(files, tuple(notes))


def _broken(submission: Submission) -> Iterator[str]:
    """Yield a line for each generation that Python does not take; a run may hold such."""
    for key, source in submission.kernels.items():
        try:
            require_python(source, key.file)
        except UserError as error:
            yield f"{error}; it is kept as it is"


def write_kernelbench(package: Package) -> Converted:
    """Return one task's kernels as the samples of a run; the task's name says level and problem.

    Raises:
        UserError: the name does not begin with KernelBench's number of a problem.
    """
    number = task_number(package.task)
    if number is None:
        raise UserError(f"{package.task.name}: the name has no number of a KernelBench problem, e.g. 19_ReLU")
    folder = Path(package.task.path or "").parent.name
    level = int(folder.removeprefix("level")) if folder.removeprefix("level").isdigit() else 1
    keys = {name: GenerationId(level, number, sample) for sample, name in enumerate(package.kernels)}
    return write_generations(
        {key: package.kernels[name] for name, key in keys.items()},
        {keys[name]: evaluation for name, evaluation in package.evaluations.items()},
    )


def write_generations(
    kernels: Mapping[GenerationId, str], evaluations: Mapping[GenerationId, Evaluation]
) -> Converted:
    """Return a run's folder: generations, and results in the form of their ``eval_results.json``."""
    files = {key.file: source for key, source in kernels.items()}
    results: dict[str, list[dict[str, object]]] = {}
    for key, evaluation in evaluations.items():
        results.setdefault(str(key.problem), []).append(_result(key, evaluation))
    if results:
        files[RESULTS] = json.dumps(results, indent=4) + "\n"
    notes = ("runtimes are of the first workload, by this referee's clock",) if results else ()
    return Converted(files, notes)


def _result(key: GenerationId, evaluation: Evaluation) -> dict[str, object]:
    timing = evaluation.told[0].candidate if evaluation.told else None
    stats = {"mean": timing.median_ms, "num_trials": timing.n_samples} if timing else {}
    return {
        "sample_id": key.sample,
        "compiled": evaluation.stage not in NOT_COMPILED,
        "correctness": evaluation.is_verified,
        "metadata": {"kernelwright": {"status": str(evaluation.status), "detail": evaluation.detail}},
        "runtime": timing.median_ms if timing else -1.0,
        "runtime_stats": stats,
    }


def fast_p(speedups: Mapping[GenerationId, float | None], total: int, p: float) -> float:
    """Return the share of all problems whose kernel is right and more than ``p`` times as fast.

    Args:
        speedups: None where the kernel is not right. Of a problem the first sample counts, as in theirs.
        total: number of problems; those without a kernel count as not fast.
        p: 0 counts every right one.
    """
    first: dict[tuple[int, int], float | None] = {}
    for key in sorted(speedups):
        first.setdefault((key.level, key.problem), speedups[key])
    fast = sum(1 for ratio in first.values() if ratio is not None and ratio > p)
    return fast / total if total else 0.0
