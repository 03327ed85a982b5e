"""What prompts are made of: recorded runs played again, and the bytes of their prompts by kind of section.

Nobody is asked and nothing is measured. Prompts are those of the commit that plays, so the same command in
another checkout shows the prompts there: ``PYTHONPATH=CHECKOUT/src python lab/benchmarks/prompt_shares.py``.

Usage: python lab/benchmarks/prompt_shares.py FOLDER [FOLDER ...]   (of ``--record``)
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kernelwright import api
from kernelwright.agents.llm import asking
from kernelwright.agents.llm.prompts import Prompt, render
from kernelwright.settings import load_settings
from kernelwright.store.sqlstore import open_store

KINDS = {
    "task": r"What must hold|The reference|Operators",
    "machine and floor": r"Roofline",
    "the base's source": r"The base",
    "diagnosis and evidence": r"Diagnosis|Evidence",
    "other kernels of the run": r"All kernels|Timings so far|Another kernel|Kernel \d|What tuning",
    "what was tried, and how it failed": r"Tried|Repair chain|How it fails|Root cause",
    "skills": r"Skill",
}
"""Kind -> how titles of its sections begin."""
BYTES_PER_TOKEN = 4


def kind_of(title: str) -> str:
    """Return what a section is about."""
    return next((kind for kind, begins in KINDS.items() if re.match(begins, title)), "question and plan")


def prompts_of(folder: Path) -> list[Prompt]:
    """Return the prompts of a recorded run, as this commit renders them."""
    rendered: list[Prompt] = []

    def watched(*args: Any, **facts: Any) -> Prompt:
        rendered.append(render(*args, **facts))
        return rendered[-1]

    with patch.object(asking, "render", watched):
        api.replay_run(folder, store=open_store("sqlite://"), settings=load_settings())
    return rendered


def main() -> int:
    """Print a table."""
    prompts = [prompt for folder in sys.argv[1:] for prompt in prompts_of(Path(folder))]
    if not prompts:
        sys.stderr.write(str(__doc__))
        return 2
    sizes: Counter[str] = Counter()
    for prompt in prompts:
        sizes["rules and the answer's form"] += len(prompt.system.encode())
        for section in re.split(r"^## ", prompt.user, flags=re.M):
            sizes[kind_of(section)] += len(section.encode())
    total, unit = sum(sizes.values()), BYTES_PER_TOKEN * len(prompts)
    lines = [f"{len(prompts)} prompts of {total / unit:.0f} tokens, {BYTES_PER_TOKEN} bytes each", ""]
    lines += ["| section | share | tokens a prompt |", "|---|---:|---:|"]
    lines += [f"| {kind} | {size / total:.0%} | {size / unit:.0f} |" for kind, size in sizes.most_common()]
    sys.stdout.write("\n".join([*lines, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
