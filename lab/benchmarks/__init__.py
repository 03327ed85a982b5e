"""Programs that measure the system itself; results are in benchmarks/results."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
"""Where results are committed."""
