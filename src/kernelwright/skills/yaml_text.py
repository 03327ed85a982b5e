"""YAML as skill files hold it, read by libyaml where PyYAML has it, which is faster."""

from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Any:
    """Return what a text describes, of plain types only; raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)
