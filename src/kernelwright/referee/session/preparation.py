"""What is done with a candidate's text before any of its code runs: it is parsed and built."""

from dataclasses import dataclass

from kernelwright.core.evaluation import Status
from kernelwright.referee.checks.guard import find_syntax_problem
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.context import JudgingContext
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.settings import RefereeSettings
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate


def build_site(launcher: Launcher, settings: RefereeSettings, architecture: str | None) -> BuildSite:
    """Return where candidates are built, confined and within the settings' limits."""
    return BuildSite(
        cache_dir=launcher.build_cache,
        timeout_s=settings.build_timeout_s,
        run=launcher.run_compiler,
        architecture=architecture,
    )


@dataclass(frozen=True)
class Preparation:
    """A candidate before any of its code runs, with the stages that look at its text alone."""

    context: JudgingContext
    dossier: Dossier

    def guard(self) -> None:
        """Check the source text alone."""
        problem = find_syntax_problem(self.context.candidate.source)
        if problem:
            raise Failure(Status.PARSE_ERROR, problem)

    def build(self) -> None:
        """Compile what the text has for a compiler."""
        context, dossier = self.context, self.dossier
        site = build_site(context.launcher, context.settings, context.architecture)
        built = build_candidate(context.candidate.program, site)
        dossier.library = built.library
        dossier.facts.update(built.facts or {})
        if built.error:
            status = Status.TIMEOUT if built.is_late else Status.COMPILE_ERROR
            raise Failure(status, built.error, built.log)
