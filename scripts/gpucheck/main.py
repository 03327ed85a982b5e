"""Runs the parts one after the other under one deadline; what has ended is kept at once."""

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpucheck import document, results
from gpucheck.machine import Machine, look
from gpucheck.pack import PackError, environment_with, pack
from gpucheck.parts import PARTS, START, Part, Place, Skip, find_kernelbench
from gpucheck.results import Result, State
from gpucheck.running import GRACE_S, run

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 520.0
"""Under nine minutes, with what it takes to start and to write."""
LEAST_S = 5.0
"""Less time than this is not worth a part's start."""
WRONG, INTERRUPTED = 2, 130

Look = Callable[[dict[str, str]], Machine]


def main(arguments: Sequence[str] | None = None, *, parts: Sequence[Part] = PARTS, look: Look = look) -> int:
    """Check, or pack; returns 0 all well, 1 something is not, 2 nothing could be checked, 130 interrupted."""
    started = time.monotonic()
    asked = _parse(arguments, parts)
    try:
        if asked.pack is not None:
            for line in pack(asked.pack, ROOT, asked.python_version, asked.platform, asked.include or []):
                _say(line)
            return 0
        environment = environment_with(asked.packages, ROOT, asked.out)
    except PackError as error:
        return _wrong(str(error))
    problem = _problem(asked, parts)
    if problem:
        return _wrong(problem)
    machine = look(environment)
    if machine.problem:
        return _wrong(f"nothing to check: {machine.problem}")
    kernelbench = find_kernelbench(ROOT, asked.kernelbench)
    place = Place(ROOT, asked.out, machine.target, kernelbench, environment, again=asked.again)
    wanted = [part for part in parts if not asked.parts or part.name in asked.parts]
    due = [part for part in wanted if asked.again or not _is_ended(results.load(asked.out, part.name))]
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    command = shlex.join(["scripts/gpu-check", *(sys.argv[1:] if arguments is None else arguments)])

    def keep() -> list[Result]:
        known = _known(asked.out, parts)
        document.write(asked.out, machine, known, date=date, command=command)
        return known

    keep()
    try:
        check(place, due, ends=started + asked.seconds, after_each=keep)
    except KeyboardInterrupt:
        _say("interrupted; what had ended is kept, go on with --resume")
        return INTERRUPTED
    ended = keep()
    _say(f"results: {', '.join(str(asked.out / name) for name in document.FILES)}")
    return 0 if len(ended) == len(parts) and all(result.state is State.DONE for result in ended) else 1


def _problem(asked: argparse.Namespace, parts: Sequence[Part]) -> str:
    """Say what is wrong with what was asked, or nothing."""
    unknown = sorted(set(asked.parts) - {part.name for part in parts})
    if unknown:
        known = ", ".join(part.name for part in parts)
        return f"no such part: {', '.join(unknown)}; there are: {known}"
    if _known(asked.out, parts) and not asked.resume:
        return f"{asked.out} holds results already; add --resume to go on, or name another --out"
    return ""


def _known(out: Path, parts: Sequence[Part]) -> list[Result]:
    """Return the results that are kept, in the order of the parts."""
    loaded = (results.load(out, part.name) for part in parts)
    return [result for result in loaded if result is not None]


def check(
    place: Place,
    parts: Sequence[Part],
    *,
    ends: float,
    after_each: Callable[[], object] = lambda: None,
) -> None:
    """Run the parts until the clock (``time.monotonic``) says ``ends``; time not used goes to later parts.

    What a fault that the first part has found makes pointless is skipped.
    """
    fault = ""
    for number, part in enumerate(parts):
        if fault and part.needs_verdicts:
            _skip(place, part, f"nothing can be judged here: {fault}")
            after_each()
            continue
        shares = sum(other.share for other in parts[number:])
        seconds = max(ends - time.monotonic(), 0.0) * part.share / shares - GRACE_S
        _say(f"[{number + 1}/{len(parts)}] {part.title}: up to {max(seconds, 0.0):.0f} s ...")
        result = _one(place, part, seconds)
        results.save(place.out, result)
        after_each()
        _say(f"[{number + 1}/{len(parts)}] {part.title}: {result.state.value} {result.detail}".rstrip())
        if part.name == START and result.state is State.FAILED:
            fault = result.detail


def _skip(place: Place, part: Part, reason: str) -> None:
    """Keep the reason, unless an earlier run has left something of the part."""
    if results.load(place.out, part.name) is None:
        results.save(place.out, Result(part.name, part.title, State.SKIPPED, reason))


def _one(place: Place, part: Part, seconds: float) -> Result:
    if seconds < LEAST_S:
        return _late(place, part, "no time was left for it; go on with --resume")
    made = part.make(place, seconds)
    if isinstance(made, Skip):
        if made.is_late:
            return _late(place, part, made.reason)
        return Result(part.name, part.title, State.SKIPPED, made.reason)
    command = [str(word) for word in made]
    if place.again or not part.carries_on:
        results.forget(place.out, part.name)
    ran = run(command, place.out / part.name / "log.txt", seconds, place.environment)
    found = results.figures(place.out, part.name)
    state, detail = _state(ran.code, found, seconds)
    return Result(
        part.name,
        part.title,
        state,
        detail,
        round(ran.seconds, 1),
        command,
        ran.code,
        list(ran.last_lines) if state is not State.DONE else [],
        found,
    )


def _late(place: Place, part: Part, why: str) -> Result:
    """Return the end of a part that was not begun; what an earlier run has found of it stays."""
    earlier = results.load(place.out, part.name)
    return Result(part.name, part.title, State.LATE, why, figures=earlier.figures if earlier else {})


def _state(code: int | None, found: dict[str, object], seconds: float) -> tuple[State, str]:
    if found.get("fault"):
        return State.FAILED, str(found["fault"])
    if code is None:
        return State.LATE, f"its {seconds:.0f} s were up; go on with --resume"
    if code == 0 and found.get("judged") == 0:
        return State.SKIPPED, "this version judged none of them on a device"
    if code in (0, 1) and found.get("left"):
        wrong = "it found something wrong, and " if code == 1 else ""
        return State.LATE, f"{wrong}{found['left']} were not begun; go on with --resume"
    if code == 0:
        return State.DONE, ""
    if code == 1 and found:
        return State.NEGATIVE, "it found something wrong"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return State.FAILED, f"its command ended with {how}"


def _is_ended(result: Result | None) -> bool:
    return result is not None and result.state.is_ended


def _parse(arguments: Sequence[str] | None, parts: Sequence[Part]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Check on a machine with a GPU all that needs one; docs/gpu-check.md."
    )
    names = ", ".join(part.name for part in parts)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu-check", help="folder of all results")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for everything (default %(default)g)")
    parser.add_argument("--resume", action="store_true", help="keep the parts that have ended, do the others")
    parser.add_argument("--again", action="store_true", help="with --resume: also those that have ended")
    parser.add_argument("--parts", type=_names, default=[], help=f"only these, by comma: {names}")
    parser.add_argument("--kernelbench", type=Path, help="folder of KernelBench with level1 in it")
    parser.add_argument("--packages", type=Path, help="folder that --pack made")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="only bring the packages together there")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python-version", default=here, help="of the other machine (default %(default)s)")
    parser.add_argument("--platform", default="manylinux2014_x86_64", help="of the other machine")
    parser.add_argument("--include", action="append", help="pack this too, such as numpy; repeatable")
    asked = parser.parse_args(arguments)
    asked.out = asked.out.resolve()
    if asked.seconds <= 0:
        parser.error("--seconds must be more than nothing")
    return asked


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _wrong(message: str) -> int:
    _say(f"error: {message}")
    return WRONG


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
