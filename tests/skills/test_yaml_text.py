"""libyaml and PyYAML's own parser read skill files alike."""

import pytest
import yaml

from kernelwright.skills.load import library_folder
from kernelwright.skills.yaml_text import read_yaml


def test_every_header_of_the_library_is_read_as_by_the_parser_in_python() -> None:
    for file in library_folder().rglob("*.md"):
        header = file.read_text(encoding="utf-8").split("---\n", 2)[1]
        assert read_yaml(header) == yaml.safe_load(header), file


def test_a_tag_that_would_make_an_object_is_refused() -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml("!!python/object/apply:os.getpid []")
