"""Is there a GPU here that torch can use? Asked in a process of its own, so that this one uses none."""

import glob
import subprocess
import sys
from functools import cache

NODES = {"cuda": ("/dev/nvidiactl", "/dev/dxg"), "hip": ("/dev/kfd",)}
"""Without one of these device files there is no use in asking torch, which takes seconds."""
LOOK = "import torch; print(('hip' if torch.version.hip else 'cuda') if torch.cuda.is_available() else '')"
LOOK_S = 120.0


@cache
def has_gpu(kind: str) -> bool:
    """Return True when torch finds a device of a kind, ``cuda`` or ``hip``; looked up once a process."""
    if not any(glob.glob(node) for node in NODES.get(kind, ())):
        return False
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOOK], capture_output=True, text=True, check=False, timeout=LOOK_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == kind
