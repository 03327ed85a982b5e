"""Mutation operators on the Python around generated kernels: buffers, pointers, what calls keep."""

import re
from collections.abc import Iterator

from lab.mutants.edits import Operator, at_each, calls

_INPUT = r"^( +)((?!p_)\w+) = \2\.contiguous\(\)\n"
_ARRAY = r"^( +)(\w+) = torch\.empty\((\([\d, ]*\)), dtype=torch\.(\w+), device=.cpu.\)\n"


def _in_class(text: str, pattern: str, replacement: str) -> Iterator[str]:
    return at_each(text, pattern, replacement, text.index("class ModelNew"))


def state_not_updated(text: str) -> Iterator[str]:
    """A buffer that the reference changes stays as it was."""
    yield from _in_class(text, r"^ +[\w.]+\.copy_\(\w+\)\n", "")
    for begin, end, lists in calls(text, "torch._foreach_copy_", text.index("class ModelNew")):
        targets, values = (names.strip("[]").split(", ") for names in lists)
        for i in range(len(targets)):
            kept = [", ".join(names[:i] + names[i + 1 :]) for names in (targets, values)]
            yield f"{text[:begin]}torch._foreach_copy_([{kept[0]}], [{kept[1]}]){text[end:]}"


def pointers_swapped(text: str) -> Iterator[str]:
    """Two inputs are given to the kernel in the wrong order."""
    yield from _in_class(text, r"( _\w+\()(\w+\.data_ptr\(\)), (\w+\.data_ptr\(\)),", r"\1\3, \2,")


def second_input_ignored(text: str) -> Iterator[str]:
    """The first input stands for the second one too."""
    yield from _in_class(text, r"( _\w+\()(\w+\.data_ptr\(\)), (?!p_)\w+\.data_ptr\(\),", r"\1\2, \2,")


def result_buffer_kept(text: str) -> Iterator[str]:
    """The result's memory is taken once and written by every call."""
    yield from _in_class(
        text, _ARRAY, r'\1\2 = self.__dict__.setdefault("kept_\2", torch.empty(\3, dtype=torch.\4))' + "\n"
    )


def result_in_the_input(text: str) -> Iterator[str]:
    """The result is written over the input where it has its shape."""
    match = re.search(_INPUT, text[text.index("class ModelNew") :], re.M)
    shapes = re.findall(rf"{match[2]}\.shape == (\([\d, ]*\))", text) if match else []
    if match and shapes:
        same = rf"^( +)(\w+) = torch\.empty\({re.escape(shapes[0])}, dtype=torch\.float32, device=.cpu.\)\n"
        yield from _in_class(text, same, rf"\1\2 = {match[2]}" + "\n")


def contiguous_assumed(text: str) -> Iterator[str]:
    """An input is taken to lie row by row."""
    yield from _in_class(text, _INPUT, "")


def zeroed_result(text: str) -> Iterator[str]:
    """The result's memory is cleared before it is written: a waste, no bug."""
    yield from _in_class(text, _ARRAY, r"\1\2 = torch.zeros(\3, dtype=torch.\4)" + "\n")


def first_weights_kept(text: str) -> Iterator[str]:
    """Weights are copied at the first call and never looked at again."""
    yield from _in_class(
        text,
        r"^( +)(p_\w+) = \2\.contiguous\(\)\n",
        r'\1\2 = self.__dict__.setdefault("kept_\2", \2.detach().clone())' + "\n",
    )


def first_answer_kept(text: str) -> Iterator[str]:
    """The first call's result is given for every input of that shape."""
    yield from _in_class(
        text,
        r"^( +)return (self\._forward_default\(.*\))\n",
        r"\1if not hasattr(self, 'answer'):\n\1    self.answer = \2\n\1return self.answer.clone()" + "\n",
    )


def wider_result(text: str) -> Iterator[str]:
    """The result is returned in twice the precision."""
    yield from _in_class(text, r"^( +return \w+)$(?=\n\Z|\n\n\Z)", r"\1.double()")


def narrower_indices(text: str) -> Iterator[str]:
    """Positions are returned as 32-bit integers."""
    if "dtype=torch.int64" in text:
        yield from _in_class(text, r"^( +return argmax\w*)$", r"\1.to(torch.int32)")


MODULE: dict[str, Operator] = {
    f.__name__: f
    for f in (
        state_not_updated, pointers_swapped, second_input_ignored, result_buffer_kept, result_in_the_input,
        contiguous_assumed, zeroed_result, first_weights_kept, first_answer_kept, wider_result,
        narrower_indices,
    )
}  # fmt: skip
