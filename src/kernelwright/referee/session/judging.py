"""One evaluation, from a candidate to a verdict: what is judged in which processes."""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from kernelwright.core.evaluation import Evaluation, OrdinaryResult, Stage, Status, WorkloadResult
from kernelwright.core.task import Workload
from kernelwright.referee.session.advice import counter_facts, thread_scaling
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.conclusion import Conclusion, result_of
from kernelwright.referee.session.confirmation import Confirmation, attempt
from kernelwright.referee.session.context import JudgingContext
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.session.input_samples import new_seed
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.ordinary import TimedProgram, programs
from kernelwright.referee.session.pair import PairTimes, ProcessPair
from kernelwright.referee.session.preparation import Preparation
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.stages import BEFORE, ON_RESULTS, run_in_pair, run_steps
from kernelwright.referee.timing.statistics import LOOKS, is_settled
from kernelwright.referee.version import REFEREE_VERSION


class Judging:
    """One evaluation in progress."""

    def __init__(self, context: JudgingContext) -> None:
        self._context = context
        self._dossier = Dossier()
        self._confirmation = Confirmation(self._dossier)

    def judge(self, references: Sequence[ReferenceProcess]) -> Evaluation:
        """Run the stages on the candidate; the first failure ends the evaluation.

        A search evaluation uses the session's references, a final evaluation opens its own.
        """
        context, dossier = self._context, self._dossier
        results: list[WorkloadResult] = []
        failure = attempt(partial(self._judge_all, results, references))
        if failure is None:
            dossier.stage = Stage.DONE
        return Evaluation(
            candidate_id=context.candidate.id,
            task_id=context.task.id,
            stage=dossier.stage,
            status=failure.status if failure else Status.VERIFIED,
            detail=failure.detail if failure else "",
            check=failure.check if failure else None,
            policy=context.settings.policy.model_copy(update={"precision": str(context.task.tolerance)}),
            log=(failure.log if failure and failure.log else dossier.log),
            errors=dossier.errors,
            families_skipped=dossier.families_skipped,
            results=() if failure else tuple(results),
            ordinary=None if failure or not dossier.ordinary else tuple(dossier.ordinary),
            phases_s=dossier.phases_s,
            facts=dossier.facts,
            notes=dossier.notes,
            missing_baselines=dossier.missing_baselines,
            not_replayed=tuple(sorted(dossier.not_replayed)),
            library_calls=None if failure else dossier.library_calls,
            is_final=context.is_final,
            referee=REFEREE_VERSION,
            sandbox=context.launcher.sandbox.tier.value,
        )

    def _judge_all(self, results: list[WorkloadResult], references: Sequence[ReferenceProcess]) -> None:
        run_steps(BEFORE, Preparation(self._context, self._dossier), self._dossier)
        if self._context.is_final:
            for workload in self._context.task.workloads:
                if not workload.is_timed:
                    self._confirmation.confirmed(partial(self._verify_finally, workload))
                    continue
                results.append(self._judge_finally(workload))
                self._judge_ordinarily(workload)
            return
        for reference in references:
            if reference.workload.is_timed:
                results.append(self._confirmation.confirmed(partial(self._judge_once, reference)))
            else:
                self._confirmation.confirmed(partial(self._verify_only, reference))
        if self._context.lead is not None:
            self._context.lead.offer(results)

    def _judge_once(self, reference: ReferenceProcess) -> WorkloadResult:
        """Verify and time a workload in one worker, beside the session's host."""
        worker = self._context.worker(reference, self._dossier.library)
        with contextlib.closing(worker):
            times = self._judge_pair(worker)
            workload = reference.workload
            result = result_of(self._dossier, workload, [times.all_threads], spread=times.spread)
            with self._dossier.phase(Stage.TIME):
                self._advise(worker, result)
        return self._conclude(result)

    def _verify_only(self, reference: ReferenceProcess) -> None:
        """Verify a workload that is not timed, in one worker."""
        worker = self._context.worker(reference, self._dossier.library)
        with contextlib.closing(worker), contextlib.closing(self._new_pair(worker)) as pair:
            run_in_pair(pair, is_timed=False)

    def _verify_finally(self, workload: Workload) -> None:
        """Verify a workload that is not timed, in fresh processes."""
        with self._dossier.phase(Stage.LOAD):
            reference = self._fresh_reference(self._context.launcher, workload, is_timed_only=False)
        with contextlib.closing(reference):
            self._verify_only(reference)

    def _judge_finally(self, workload: Workload) -> WorkloadResult:
        """Verify and time a workload in fresh processes: one pair if ordinary ones follow, else several."""
        self._context.begin_ordinary()
        judge = partial(self._judge_fresh_pair, workload, new_seed())
        if self._context.has_ordinary:
            pairs = [self._confirmation.confirmed(partial(judge, 0))]
        else:
            pairs = self._judge_pairs(judge)
        samples = [pair.all_threads for pair in pairs]
        return self._conclude(result_of(self._dossier, workload, samples, spread=pairs[-1].spread))

    def _judge_ordinarily(self, workload: Workload) -> None:
        """Judge and time what is delivered in pairs of ordinary processes, if there are any.

        Together they get all input distributions: what runs only there must be right on all of them, too.
        """
        context, dossier = self._context, self._dossier
        if context.ordinary is None or not context.has_ordinary:
            return
        if (form := context.settings.delivered) is not None:
            context.ordinary.load(form.needs)
        program, *others = programs(context.settings, context.candidate, context.task, workload)
        order = new_seed()
        dossier.memory = None

        def judge(turn: int) -> PairTimes:
            nonlocal program
            try:
                return self._judge_ordinary_pair(workload, program, turn=turn, order=order)
            except Failure as failure:
                if dossier.stage is not Stage.LOAD or turn > 0 or not others:
                    raise
                dossier.note(f"the module was not timed, only its kernel: {failure.detail}")
                program = others.pop()
                return self._judge_ordinary_pair(workload, program, turn=turn, order=order)

        pairs = self._judge_pairs(judge)
        result = self._conclude(result_of(dossier, workload, [pair.all_threads for pair in pairs]))
        alone = [pair.one_thread for pair in pairs if pair.one_thread is not None]
        with_one = result_of(dossier, workload, alone, is_alone=True) if len(alone) == len(pairs) else None
        dossier.ordinary.append(
            OrdinaryResult(
                timed="module" if program.is_module else "kernel",
                all_threads=result, one_thread=with_one, memory=dossier.memory,
            )
        )  # fmt: skip

    def _judge_pairs(self, judge: Callable[[int], PairTimes]) -> list[PairTimes]:
        """Judge in pairs of processes, numbered from 0, until more would add nothing or take too long."""
        pairs: list[PairTimes] = []
        begin = time.perf_counter() - self._dossier.waited_s
        while not pairs or not is_settled([pair.all_threads for pair in pairs]):
            spent_s = time.perf_counter() - begin - self._dossier.waited_s
            most_s = self._context.settings.final_seconds
            if len(pairs) == LOOKS[0] and spent_s / LOOKS[0] * LOOKS[1] > most_s:
                break
            pairs.append(self._confirmation.confirmed(partial(judge, len(pairs))))
        return pairs

    def _judge_fresh_pair(self, workload: Workload, order: int, turn: int) -> PairTimes:
        """Open a host and a worker and judge there: on all samples in the first turn, else on timed ones.

        After its timing, each of the later pairs also gets its share of the other input distributions, so
        that no process can be fast on inputs it has seen and wrong on the others. ``order`` is the secret
        seed of the shares.
        """
        with self._dossier.phase(Stage.LOAD):
            reference = self._fresh_reference(self._context.launcher, workload, is_timed_only=turn > 0)
        with contextlib.closing(reference):
            worker = self._context.worker(reference, self._dossier.library)
            with contextlib.closing(worker):
                return self._judge_pair(worker, turn=turn, order=order)

    def _judge_ordinary_pair(
        self, workload: Workload, program: TimedProgram, *, turn: int, order: int
    ) -> PairTimes:
        launcher = self._context.ordinary
        assert launcher is not None
        with self._dossier.phase(Stage.LOAD):
            reference = self._fresh_reference(launcher, workload, is_timed_only=True)
        with contextlib.closing(reference):
            worker = self._context.worker(reference, self._dossier.library, program)
            with contextlib.closing(worker):
                return self._judge_pair(worker, turn=1 + turn, order=order, program=program)

    def _fresh_reference(
        self, launcher: Launcher, workload: Workload, *, is_timed_only: bool
    ) -> ReferenceProcess:
        """Open the reference once more, with new samples; what it accepts is found out once."""
        context, accepted = self._context, self._dossier.accepted
        reference = ReferenceProcess(
            launcher, context.settings, context.task, workload, is_final=True, is_timed_only=is_timed_only,
            accepted=accepted.get(workload.name),
        )  # fmt: skip
        accepted[workload.name] = reference.accepted
        return reference

    def _judge_pair(
        self, worker: CandidateProcess, *, turn: int = 0, order: int = 0, program: TimedProgram | None = None
    ) -> PairTimes:
        """Run the stages of one pair of processes; ``program`` is what ordinary ones load."""
        with contextlib.closing(self._new_pair(worker, turn=turn, order=order, program=program)) as pair:
            run_in_pair(pair, is_timed=True)
        return pair.times

    def _new_pair(
        self, worker: CandidateProcess, *, turn: int = 0, order: int = 0, program: TimedProgram | None = None
    ) -> ProcessPair:
        return ProcessPair(
            self._context, self._dossier, self._confirmation, worker,
            turn=turn, order=order, program=program,
        )  # fmt: skip

    def _conclude(self, result: WorkloadResult) -> WorkloadResult:
        """Return the result of a workload after it has passed the checks of results; no worker is left."""
        conclusion = Conclusion(self._context, self._dossier, result)
        run_steps(ON_RESULTS, conclusion, self._dossier)
        return conclusion.result

    def _advise(self, worker: CandidateProcess, result: WorkloadResult) -> None:
        """Gather facts for the search, on which no verdict rests."""
        reference, facts = worker.reference, self._dossier.facts
        if "run.thread_scaling" in facts or reference.device.is_apart:
            return
        sets = reference.first_sets
        lease = self._context.lease()
        try:
            self._dossier.take(lease)
            facts |= counter_facts(worker, sets, result.candidate)
            facts |= thread_scaling(worker, sets, result.candidate, self._context.settings.n_threads)
        finally:
            lease.release()
