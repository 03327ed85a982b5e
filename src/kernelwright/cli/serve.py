"""``kernelwright serve``: the referee for programs elsewhere, over HTTP or through a folder."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kernelwright.cli.options import (
    AsJson,
    LibraryCallsOption,
    NonfiniteOption,
    PeakMemoryOption,
    RequireSandbox,
    WeightsOption,
)
from kernelwright.cli.output import print_json, say
from kernelwright.core.policy import PEAK_MEMORY, LibraryCalls, Nonfinite, Policy, Weights
from kernelwright.core.version import __version__
from kernelwright.remote.access import require_loopback, require_token
from kernelwright.settings import TOKEN_VARIABLE, Settings, load_secret

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8787,
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Environment variable with the bearer token.")
    ] = TOKEN_VARIABLE,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Anyone on this machine may ask; loopback only.")
    ] = False,
    max_queue: Annotated[int, typer.Option("--max-queue", min=1, help="Requests that may wait.")] = 64,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1000, help="Size of one body.")] = 4_000_000,
    max_per_client: Annotated[
        int, typer.Option("--max-per-client", min=1, help="Requests of one address that may wait or run.")
    ] = 8,
    drop: Annotated[
        Path | None, typer.Option("--drop", metavar="FOLDER", help="Answer this folder instead of HTTP.")
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help="Where candidates are judged: cpu, cuda, cuda:N, hip or hip:N.")
    ] = "cpu",
    library_calls: LibraryCallsOption = None,
    weights: WeightsOption = None,
    nonfinite: NonfiniteOption = None,
    peak_memory: PeakMemoryOption = None,
    require_sandbox: RequireSandbox = None,
    trust_tasks: Annotated[
        bool, typer.Option("--trust-tasks", help="Run references outside the sandbox: all clients are you.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge kernels for programs elsewhere; ends with Ctrl-C or SIGTERM.

    Kernels and references run in the sandbox; docs/serve.md says what it does not stop.
    """
    # lazy: loads torch
    from kernelwright.api.machines import bound_settings, require_device

    policy = Policy(
        library_calls=LibraryCalls(library_calls or LibraryCalls.ALLOWED),
        weights=Weights(weights or Weights.EVERY_CALL),
        nonfinite=Nonfinite(nonfinite or Nonfinite.AUTO),
        peak_memory=PEAK_MEMORY if peak_memory is None else peak_memory,
    )
    where = bound_settings(require_sandbox=require_sandbox, confine_tasks=not trust_tasks)
    require_device(device)
    if drop is not None:
        _serve_folder(drop, max_bytes, policy, device, where, as_json=as_json)
        return
    token = None if no_token else require_token(load_secret(token_env), token_env)
    if no_token:
        require_loopback(host)
    # lazy: needs the packages of the extra "serve"
    from kernelwright.api.serving import machine_to_tell, peaks_to_judge_by
    from kernelwright.referee.baselines import known_baselines
    from kernelwright.remote.server import listen, serve_http
    from kernelwright.remote.service import ServiceSettings, make_app

    limits = ServiceSettings(
        max_queue=max_queue,
        max_per_client=max_per_client,
        max_bytes=max_bytes,
        baselines=known_baselines(device),
        device=_kind(device),
        gpu=_gpu_name(where, device),
    )
    with listen(host, port) as sock:
        say("measuring this machine's peaks where they are not known ...")
        peaks = peaks_to_judge_by(where, device)
        app = make_app(
            _referee(where, policy, device),
            token=token,
            peaks=peaks,
            machine=machine_to_tell(where, device),
            settings=limits,
        )
        by = "no token" if no_token else f"the token in {token_env}"
        serve_http(app, sock, partial(_announce, by=by, as_json=as_json))
    say("ended")


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _gpu_name(where: Settings, device: str) -> str:
    # lazy: only for a GPU
    from kernelwright.api.serving import gpu_to_judge_on

    gpu = gpu_to_judge_on(where, device)
    return "" if gpu is None else gpu.name


def _referee(
    where: Settings, policy: Policy, device: str
) -> Callable[[], "AbstractContextManager[Evaluator]"]:
    # lazy: loads much
    from kernelwright.api import open_referee

    return partial(open_referee, where, policy, device=device)


def _announce(where: str, *, by: str, as_json: bool) -> None:
    say(f"serving on {where} with {by}; end with Ctrl-C")
    if as_json:
        print_json({"serving": where, "version": __version__})


def _serve_folder(
    folder: Path, max_bytes: int, policy: Policy, device: str, where: Settings, *, as_json: bool
) -> None:
    # lazy: loads much
    from kernelwright.api.serving import machine_to_tell, peaks_to_judge_by
    from kernelwright.remote.dropservice import DropService
    from kernelwright.remote.filedrop import make_folders
    from kernelwright.remote.sessions import Sessions

    make_folders(folder)
    sessions = Sessions(_referee(where, policy, device))
    service = DropService(
        folder,
        sessions,
        peaks_to_judge_by(where, device),
        max_bytes,
        _kind(device),
        machine_to_tell(where, device),
    )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _announce(str(folder), by="everyone who can write there", as_json=as_json)
        service.answer_forever()
    except KeyboardInterrupt:
        say("ended; what is not answered will be when this is started again")
    finally:
        sessions.close()
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
