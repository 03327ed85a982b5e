"""Takes the device code out of a source that also holds host code against torch's headers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r'|(?P<text>R"(?P<mark>[^()\s\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<directive>(?:^|(?<=\n))[ \t]*#(?:\\\r?\n|[^\n])*)"
    r"|(?P<open>[{(])|(?P<close>[})])|(?P<end>;)",
    re.DOTALL,
)
_TRANSPARENT = re.compile(r'^\s*(?:inline\s+)?namespace\b[^;{()]*$|^\s*extern\s*"C(?:\+\+)?"\s*$')
_ON_DEVICE = re.compile(r"\b__(?:global|device|constant|managed)__\b")
_TYPE = re.compile(r"(?:template\s*<[^{}]*>\s*)?(?:typedef\s+)?(?:struct|class|union|enum)\b[^()]*$")
_BINDING = re.compile(r"\s*(?:PYBIND11_MODULE|TORCH_LIBRARY\w*)\s*\(")
_OF_TORCH = re.compile(
    r"\b(?:torch|at|c10|caffe2|py|pybind11)::|\bTensor\b|\busing\s+namespace\s+(?:torch|at|c10|py|pybind11)\b"
)
_TORCH_HEADER = re.compile(r'\s*#\s*include\s*[<"](?:torch|ATen|c10|caffe2|THC?|pybind11|Python\.h)')


@dataclass(frozen=True)
class DevicePart:
    """A source, taken apart."""

    device: str
    """Directives, types, constants, device functions and kernels, in order."""
    host: str
    """The bodies of host functions: where kernels are launched."""


def take_device_part(text: str) -> DevicePart:
    """Return the parts; what is in neither are torch's headers, bindings and declarations of host functions.

    A scanner of brackets, strings, comments and directives, no parser of C++: macros are not expanded.
    """
    kept, host = list[str](), list[str]()
    for item, head, has_body in top_level_items(text):
        if item.lstrip().startswith("#"):
            kept += [] if _TORCH_HEADER.match(item) else [item]
        elif _ON_DEVICE.search(head):
            kept.append(item)
        elif _BINDING.match(head):
            continue
        elif _is_host_function(head, has_body):
            host.append(item)
        elif has_body or not _OF_TORCH.search(head):
            kept.append(item)
    return DevicePart(device="\n".join(kept), host="\n".join(host))


def _is_host_function(head: str, has_body: bool) -> bool:
    declares = "(" in head and "=" not in head.partition("(")[0]
    return has_body and declares and not _TYPE.match(head.lstrip()) and "constexpr" not in head


def top_level_items(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield declarations, definitions and directives: the text, what stands before its body, has it one.

    Namespaces and ``extern "C"`` blocks are looked into; their brackets are items of their own.
    """
    item, head, depth, body_at, opened = "", "", 0, None, 0
    position = 0
    for match in _TOKEN.finditer(text):
        item += text[position : match.start()]
        position = match.end()
        token = match[0]
        if match["comment"] is not None:
            item += " "
            continue
        if match["directive"] is not None and depth == 0 and not item.strip():
            yield token, "", False
            continue
        if match["open"] == "{" and depth == 0:
            if _TRANSPARENT.match(item):
                yield item + "{", "", True
                item, opened = "", opened + 1
                continue
            head, body_at = item, len(item)
        if match["close"] == "}" and depth == 0 and opened and not item.strip():
            yield "}", "", True
            item, opened = "", opened - 1
            continue
        item += token
        depth += bool(match["open"]) - bool(match["close"])
        depth = max(depth, 0)
        ended = match["end"] is not None and depth == 0
        function_ended = match["close"] == "}" and depth == 0 and body_at is not None and _ends_here(head)
        if ended or function_ended:
            yield item.strip(), head if body_at is not None else item, body_at is not None
            item, head, body_at = "", "", None
    if (item + text[position:]).strip():
        yield (item + text[position:]).strip(), item, body_at is not None


def _ends_here(head: str) -> bool:
    """True for a function; the closing bracket of a type or of a list of values comes before a semicolon."""
    return "(" in head and "=" not in head.partition("(")[0] and not _TYPE.match(head.lstrip())
