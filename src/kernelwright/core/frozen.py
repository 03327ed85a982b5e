"""The base of every noun: an immutable, validated, JSON-serialisable record."""

import hashlib
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable record; unknown fields are an error, so a typo never becomes silent data."""

    # "constants": an error of infinity must come back from JSON as infinity, and null would not parse.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )


def encodable(text: str) -> str:
    """Return the text with halves of surrogate pairs and the character 0 replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


Encodable = Annotated[str, AfterValidator(encodable)]
"""Text of others that files, stores and processes take: halves of surrogate pairs and the character 0, which
JSON may bring, are replaced."""


def content_hash(*parts: str) -> str:
    """Return 16 hex digits of the SHA-256 over the parts, separated so that no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
