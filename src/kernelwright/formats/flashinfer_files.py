"""The files of a FlashInfer-Bench dataset, read as far as they can be; what cannot be is told in notes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from kernelwright.core.errors import UserError
from kernelwright.formats.flashinfer_records import DefinitionRecord, SolutionRecord, TraceRecord
from kernelwright.formats.package import counted, parse_json, read_json, read_record, read_text

R = TypeVar("R", DefinitionRecord, SolutionRecord)


def find_definitions(path: Path) -> tuple[Path, list[Path]]:
    """Return the dataset's root and the files of its definitions; raises UserError where there are none."""
    if path.is_file():
        above = [folder for folder in path.parents if folder.name == "definitions"]
        return (above[0].parent if above else path.parent), [path]
    files = sorted((path / "definitions").rglob("*.json"))
    if not files:
        raise UserError(
            f"{path}: no definitions/*.json there; name a FlashInfer-Bench dataset or a definition"
        )
    return path, files


def read_records(kind: type[R], files: Sequence[Path], notes: list[str]) -> list[R]:
    """Return the records of files that hold one each."""
    found = []
    for file in files:
        try:
            found.append(read_record(kind, read_json(file), file))
        except UserError as error:
            notes.append(str(error))
    return found


def read_traces(root: Path, definition: str, notes: list[str]) -> list[TraceRecord]:
    """Return the workloads and traces of a definition."""
    found: list[TraceRecord] = []
    for file in _trace_files(root, definition):
        problems = []
        try:
            lines = read_text(file).split("\n")
        except UserError as error:
            notes.append(str(error))
            continue
        for number, line in enumerate(lines, 1):
            try:
                found += _trace(line, Path(f"{file}:{number}"), definition)
            except UserError as error:
                problems.append(str(error))
        notes += counted(problems, "lines of the file")
    return found


def _trace_files(root: Path, definition: str) -> Iterator[Path]:
    for folder in ("workloads", "traces"):
        for file in sorted((root / folder).rglob("*.jsonl")):
            if file.name == f"{definition}.jsonl":
                yield file


def _trace(line: str, where: Path, definition: str) -> list[TraceRecord]:
    """Return what a line holds, nothing where it is blank; raises UserError."""
    if not line.strip():
        return []
    trace = read_record(TraceRecord, parse_json(line, where), where)
    if trace.definition != definition:
        raise UserError(f"{where}: is about the definition {trace.definition}, not {definition}")
    return [trace]
