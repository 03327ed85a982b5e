"""Run ids: short, sortable by time, unlikely to collide."""

import random
from datetime import UTC, datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter is taken for a digit."""
_EPOCH = datetime(2025, 1, 1, tzinfo=UTC)
_TIME_DIGITS, _RANDOM_DIGITS = 8, 3
"""Eight digits of milliseconds last until 2059."""


def new_run_id(now: datetime, rng: random.Random) -> str:
    """Return 11 characters: the milliseconds since 2025 and three random ones."""
    milliseconds = int((now - _EPOCH).total_seconds() * 1000)
    return _base32(milliseconds, _TIME_DIGITS) + _base32(rng.getrandbits(5 * _RANDOM_DIGITS), _RANDOM_DIGITS)


def _base32(number: int, digits: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(digits)))
