"""What commands that run an experiment of many runs print and write alike."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.output import print_json, print_table, tell
from kernelwright.core.request import BenchRequest, CompareRequest
from kernelwright.report.files import make_folder
from kernelwright.report.results import BenchResult, ComparisonResult


class ExperimentOutput:
    """The folder, the files and the last words of one experiment."""

    def __init__(self, request: BenchRequest | CompareRequest, title: str) -> None:
        self.title = title
        self.resume_command = request.resumed(title).command_line()
        self._folder = make_folder(Path(request.out or title))
        self._written: list[Path] = []

    def interruptible(self, *, as_json: bool) -> AbstractContextManager[None]:
        """Say how to carry on when the experiment is interrupted."""
        return keeping("what was finished is kept", as_json=as_json, resume_with=self.resume_command)

    def save(self, result: BenchResult | ComparisonResult) -> None:
        """Write the files from what there is."""
        self._written = result.save(self._folder)

    def finish(
        self, result: BenchResult | ComparisonResult, show_more: Callable[[], None], *, as_json: bool
    ) -> None:
        """Print the results and exit with 1 unless every run succeeded."""
        if as_json:
            print_json({**result.document(), "files": self._written})
        else:
            for table in result.tables():
                print_table(table)
                tell("")
            show_more()
            tell(f"\nResults: {', '.join(map(str, self._written))}")
        raise typer.Exit(0 if result.is_success else 1)
