"""Keys: read from the environment, handed to the SDK, and blacked out everywhere else."""

import json
import os
import re
from collections.abc import Mapping
from urllib.parse import quote

SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)(_|$)", re.IGNORECASE)
MIN_LENGTH = 8
"""Shorter values are placeholders ("none", "EMPTY") that would black out ordinary words; our choice."""
BLACKED_OUT = "[key]"


class Keys:
    """The environment's keys. Shows none of them in its ``repr``."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        secrets = {
            value
            for name, value in self._environ.items()
            if SECRET_NAME.search(name) and len(value) >= MIN_LENGTH
        }
        spellings = {form for value in secrets for form in (value, json.dumps(value)[1:-1], quote(value, ""))}
        # A key that contains another one goes first.
        self._spellings = sorted(spellings, key=lambda form: (-len(form), form))

    def find(self, name: str) -> str | None:
        """Return the key in that environment variable, None when it is unset or empty."""
        return self._environ.get(name) or None

    def scrub(self, text: str) -> str:
        """Return the text with every key blacked out, as it is and as JSON or a URL spells it."""
        for spelling in self._spellings:
            text = text.replace(spelling, BLACKED_OUT)
        return text

    def __repr__(self) -> str:
        return "Keys(hidden)"
