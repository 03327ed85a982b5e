"""Mutation operators on C++ as our printer writes it: what goes wrong when loops are written by hand.

Each is a function from the text of a file to its mutants. ``BODY`` holds those that look at the generated
functions, ``PRELUDE`` those that look at the helpers above them. A mutant always compiles.
"""

import re
from collections.abc import Iterator, Mapping

from lab.mutants.edits import Operator, at_each, calls, outside_brackets

_TAIL = r"^#pragma omp simd\n( *)for \(int l = 0; l < (\d+); \+\+l\) \{\n( +)const int (\w+) = (\d+) \+ l;\n"
_NARROW = {
    "bf16": "static inline float narrow(float x) {\n"
    "  uint32_t bits = __builtin_bit_cast(uint32_t, x);\n"
    "  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;\n"
    "  return __builtin_bit_cast(float, bits);\n}\n",
    "tf32": "static inline float narrow(float x) {\n"
    "  uint32_t bits = (__builtin_bit_cast(uint32_t, x) + 0x1000u) & 0xffffe000u;\n"
    "  return __builtin_bit_cast(float, bits);\n}\n",
    "half": "static inline float narrow(float x) { return (float)(_Float16)x; }\n",
}


def bodies_start(text: str) -> int:
    """Return where the generated functions begin, behind the prelude."""
    match = re.search(
        r"^(?:template <int LANES>\n)?static inline void \w+_(?:block|point|inside)\(", text, re.M
    )
    return match.start() if match else len(text)


def _in_bodies(text: str, pattern: str, replacement: str) -> Iterator[str]:
    return at_each(text, pattern, replacement, bodies_start(text))


# -- loops -----------------------------------------------------------------------------------------


def tail_dropped(text: str) -> Iterator[str]:
    """The rest behind the last whole block is never looked at."""
    for match in re.compile(_TAIL, re.M).finditer(text, bodies_start(text)):
        end = text.index(f"\n{match[1]}}}\n", match.end()) + len(match[1]) + 3
        yield text[: match.start()] + text[end:]
    yield from _in_bodies(text, r"^ *else\n +\w+<\d+>\(.*\);\n", "")


def tail_short(text: str) -> Iterator[str]:
    """The last element of the tail is left out."""
    for match in re.compile(_TAIL, re.M).finditer(text, bodies_start(text)):
        if int(match[2]) > 1:
            changed = match[0].replace(f"l < {match[2]};", f"l < {int(match[2]) - 1};")
            yield text[: match.start()] + changed + text[match.end() :]
    yield from at_each(
        text, r"(?<=else\n)( +\w+)<(\d+)>\(", lambda m: f"{m[1]}<{int(m[2]) - 1}>(" if int(m[2]) > 1 else None
    )


def last_block_missing(text: str) -> Iterator[str]:
    """The loop over whole blocks ends one block early."""
    yield from at_each(
        text,
        r"(\w+_block\w*) < (\d+); \1 \+= (\d+)",
        lambda m: f"{m[1]} < {max(int(m[2]) - int(m[3]), 0)}; {m[1]} += {m[3]}",
        bodies_start(text),
    )


def last_row_missing(text: str) -> Iterator[str]:
    """An outer loop ends one short: the last results are whatever the memory held."""
    yield from at_each(
        text,
        r"for \(int (i\d+) = 0; \1 < (\d+); \+\+\1\)",
        lambda m: f"for (int {m[1]} = 0; {m[1]} < {int(m[2]) - 1}; ++{m[1]})" if int(m[2]) > 1 else None,
        bodies_start(text),
    )


def one_too_many(text: str) -> Iterator[str]:
    """``<=`` for ``<`` in a loop over what is reduced."""
    yield from _in_bodies(
        text, r"for \(int (r\d+) = 0; \1 < (\d+); \+\+\1\)", r"for (int \1 = 0; \1 <= \2; ++\1)"
    )


def one_row_too_many(text: str) -> Iterator[str]:
    """``<=`` for ``<`` in a loop over results: one row is written behind the output's end."""
    yield from _in_bodies(
        text, r"for \(int (i\d+) = 0; \1 < (\d+); \+\+\1\)", r"for (int \1 = 0; \1 <= \2; ++\1)"
    )


def window_too_wide(text: str) -> Iterator[str]:
    """The padding's upper bound lets one element of the next row in."""
    yield from _in_bodies(text, r"< (\d+)(\)+) \?", r"<= \1\2 ?")
    yield from _in_bodies(text, r"(const bool inside\w* = .* )< (\d+)\);", r"\1<= \2);")


def window_too_narrow(text: str) -> Iterator[str]:
    """The padding's lower bound leaves the first element out."""
    yield from _in_bodies(text, r" >= 0\)", " > 0)")


# -- reductions ------------------------------------------------------------------------------------


def max_from_zero(text: str) -> Iterator[str]:
    """A maximum starts at 0 and not at minus infinity."""
    yield from _in_bodies(text, r"= -INF;", "= 0.0f;")


def sum_not_cleared(text: str) -> Iterator[str]:
    """A sum starts with what the stack holds."""
    yield from _in_bodies(text, r"(\w+_lanes\[\w+\]) = \{\};", r"\1;")


def product_from_zero(text: str) -> Iterator[str]:
    """A running product starts at 0."""
    yield from _in_bodies(text, r"(double \w+_carry) = 1\.0;", r"\1 = 0.0;")


def carry_lost(text: str) -> Iterator[str]:
    """Every block of a scan starts afresh."""
    start = {"sum": "0.0", "prod": "1.0"}
    yield from at_each(
        text,
        r"prefix_(sum|prod)\((\w+), (\w+)\);",
        lambda m: f"{m[3]} = {start[m[1]]};\n    {m[0]}",
        bodies_start(text),
    )


def half_of_the_lanes(text: str) -> Iterator[str]:
    """Partial results of half of the lanes never reach the result."""
    helper = (
        "template <class T, int N> static inline T first_of(const T (&lane)[N]) "
        "{{ T all = lane[0]; for (int l = 1; l < N / 2; ++l) all = {join}; return all; }}\n"
    )
    join = {
        "sum": "all + lane[l]",
        "max": "lane[l] > all ? lane[l] : all",
        "min": "lane[l] < all ? lane[l] : all",
    }
    start = bodies_start(text)
    for match in re.compile(r"lanes_(sum|max|min)\(").finditer(text, start):
        changed = text[: match.start()] + "first_of(" + text[match.end() :]
        yield changed[:start] + helper.format(join=join[match[1]]) + changed[start:]


def first_part_only(text: str) -> Iterator[str]:
    """What each thread has found is not joined: only the first part counts."""
    yield from _in_bodies(
        text, r"(for \(int part = )0(; part < )(\d+)(; \+\+part\) \{\n +for \(int l)", r"\g<1>0\g<2>1\4"
    )


def one_less_in_the_mean(text: str) -> Iterator[str]:
    """Division by n - 1 for n."""
    start = bodies_start(text)
    yield from at_each(
        text, r"/ (\d+)\.0f", lambda m: f"/ {int(m[1]) - 1}.0f" if int(m[1]) > 1 else None, start
    )
    yield from at_each(text, r"\* (0\.0\d+)f", lambda m: f"* {1 / (round(1 / float(m[1])) - 1):.8g}f", start)


# -- precision -------------------------------------------------------------------------------------


def _narrowed(text: str, kind: str, pattern: str, replacement: str) -> Iterator[str]:
    start = bodies_start(text)
    for changed in at_each(text, pattern, replacement, start):
        yield changed[:start] + _NARROW[kind] + changed[start:]


def sum_in_bf16(text: str) -> Iterator[str]:
    """Every partial sum is rounded to bfloat16."""
    yield from _narrowed(text, "bf16", r"(\w+_(?:lanes|part)\[l\]) \+= (.*);", r"\1 = narrow(\1 + \2);")


def sum_in_half(text: str) -> Iterator[str]:
    """Every partial sum is rounded to float16."""
    yield from _narrowed(text, "half", r"(\w+_(?:lanes|part)\[l\]) \+= (.*);", r"\1 = narrow(\1 + \2);")


_ELEMENT = r"(?!p_)\w+\[[^\]]*\b[ir]\d+\b[^\]]*\]"
_LOAD = rf"(?<=[=(+*?-] ){_ELEMENT}(?=.*;)|(?<=\(){_ELEMENT}"


def input_in_bf16(text: str) -> Iterator[str]:
    """An input is rounded to bfloat16 on its way in."""
    yield from _narrowed(text, "bf16", _LOAD, r"narrow(\g<0>)")


def input_in_tf32(text: str) -> Iterator[str]:
    """An input loses the thirteen bits of mantissa that TF32 does not have."""
    yield from _narrowed(text, "tf32", _LOAD, r"narrow(\g<0>)")


def scan_in_float(text: str) -> Iterator[str]:
    """A scan runs in float32 and not in float64."""
    if "_carry" in text:
        changed = re.sub(r"double (\w+_(?:carry|run)\b)", r"float \1", text)
        yield changed


def float_total(text: str) -> Iterator[str]:
    """Lanes are joined in float32 and not in float64."""
    if "lanes_sum(" in text[bodies_start(text) :]:
        yield text.replace("static inline double lanes_sum", "static inline float lanes_sum").replace(
            "  double total = 0;", "  float total = 0;"
        )


# -- arithmetic ------------------------------------------------------------------------------------


def eps_dropped(text: str) -> Iterator[str]:
    """No epsilon under the root."""
    yield from _in_bodies(text, r" \+ 1e-\d+f", "")


def eps_changed(text: str) -> Iterator[str]:
    """An epsilon ten times as large."""
    yield from at_each(text, r"1e-(\d+)f", lambda m: f"1e-{int(m[1]) - 1:02}f", bodies_start(text))


def maximum_not_subtracted(text: str) -> Iterator[str]:
    """Exponentials of the values themselves: softmax that overflows."""
    start = bodies_start(text)
    for begin, end, (argument, *_) in calls(text, "vexp", start):
        minus = [i for i in outside_brackets(argument, "-")]
        if minus:
            yield text[:begin] + f"vexp({argument[: minus[-1]].strip()})" + text[end:]


def clip_dropped(text: str) -> Iterator[str]:
    """A clamp or ReLU with a constant bound does nothing."""
    start = bodies_start(text)
    for name in ("nanmax", "nanmin"):
        for begin, end, arguments in calls(text, name, start):
            if re.fullmatch(r"-?\d+\.\d+f", arguments[-1]):
                yield text[:begin] + f"({arguments[0]})" + text[end:]


def reduction_keeps_first(text: str) -> Iterator[str]:
    """A maximum is overwritten by each element in turn: the last one wins."""
    for begin, end, arguments in calls(text, "nanmax", bodies_start(text)):
        if arguments[0].endswith("_lanes[l]"):
            yield text[:begin] + arguments[1] + text[end:]


def other_sign(text: str) -> Iterator[str]:
    """``-`` for ``+`` or ``+`` for ``-``, outside of indices."""
    yield from _swapped(text, "+-", {"+": "-", "-": "+"})


def sum_for_product(text: str) -> Iterator[str]:
    """``+`` for ``*``, outside of indices."""
    yield from _swapped(text, "*", {"*": "+"})


def _swapped(text: str, symbols: str, other: Mapping[str, str]) -> Iterator[str]:
    start = bodies_start(text)
    for line in re.compile(r"^ +(?:const float |float )?[\w\[\] *+]+ \+?= (.*);$", re.M).finditer(
        text, start
    ):
        for i in outside_brackets(line[1], symbols):
            at = line.start(1) + i
            yield text[:at] + other[text[at]] + text[at + 1 :]


def constant_off(text: str) -> Iterator[str]:
    """A constant is wrong by one in a thousand."""
    yield from at_each(
        text,
        r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)f",
        lambda m: f"{float(m[1]) * 1.001:.9g}f" if float(m[1]) else None,
        bodies_start(text),
    )


def scaled_twice(text: str) -> Iterator[str]:
    """A constant factor is applied twice."""
    yield from _in_bodies(text, r"\* (\d+\.\d+f)", r"* \1 * \1")


def threshold_moved(text: str) -> Iterator[str]:
    """A comparison with a constant uses another one."""
    yield from at_each(
        text,
        r"([<>]) (\d+\.\d+)f\)",
        lambda m: f"{m[1]} {float(m[2]) * 1.25 + 0.01:.6g}f)",
        bodies_start(text),
    )


def equal_counts_too(text: str) -> Iterator[str]:
    """``<=`` for ``<`` and ``>=`` for ``>`` in a comparison of values."""
    yield from _in_bodies(text, r"([<>]) (-?\d+\.\d+f\))", r"\1= \2")


def branches_swapped(text: str) -> Iterator[str]:
    """A choice takes the other branch."""
    yield from _in_bodies(
        text, r"= (\(?\w+ [<>] [\w.]+\)?|\w+_at) \? ([^?:]+) : ([^?:;]+);", r"= \1 ? \3 : \2;"
    )


# -- indices ---------------------------------------------------------------------------------------


def wrong_stride(text: str) -> Iterator[str]:
    """Rows lie one element nearer together than they do."""
    yield from at_each(
        text,
        r"(?<=[ (])(\w+)\[([^\]]*?)\b([ir]\d+) \* (\d+)(?=[^\]]*\](?!.* =|[^;]*=[^=]))",
        lambda m: f"{m[1]}[{m[2]}{m[3]} * {int(m[4]) - 1}" if int(m[4]) > 2 else None,
        bodies_start(text),
    )


def broadcast_lost(text: str) -> Iterator[str]:
    """The first element of a parameter or vector is used for all."""
    yield from _in_bodies(text, r"\b(p_\w+)\[\w[^\]]*\]", r"\1[0]")
    yield from _in_bodies(text, r"(?<== )(\w+)\[[ir]\d+\]", r"\1[0]")
    yield from _in_bodies(text, r"(?<=[(*+-] )(\w+)\[[ir]\d+\]", r"\1[0]")


def neighbour_read(text: str) -> Iterator[str]:
    """A parameter is read one element further on."""
    yield from _in_bodies(text, r"\b(p_\w+)\[(\w[^\]]*)\]", r"\1[(\2) ^ 1]")


# -- threads ---------------------------------------------------------------------------------------


def shared_accumulator(text: str) -> Iterator[str]:
    """Threads share what each should have for itself."""
    if "#pragma omp parallel" not in text:
        return
    yield from _in_bodies(
        text,
        r"^( +)(float|double) (\w+_lanes)\[(\d+)\] = \{\};",
        r"\1static \2 \3[\4];\n\1for (int l = 0; l < \4; ++l) \3[l] = 0;",
    )


def shared_scratch(text: str) -> Iterator[str]:
    """Threads share a row of scratch, which a compiler may not keep in registers before it scans it."""
    if "#pragma omp parallel" not in text:
        return
    declared = r"^( +)alignas\(64\) (float|double) (\w+)\[(\d+)\];"
    for mutant in _in_bodies(text, declared, r"\1static \2 \3[\4];"):
        name = re.findall(r"^ +static (?:float|double) (\w+)\[\d+\];", mutant, re.M)[0]
        in_memory = rf'\1asm volatile("" : "+m"({name}));\n\1'
        yield re.sub(rf"^( +)(?=prefix_\w+\({name}, )", in_memory, mutant, flags=re.M)


def reduction_without_a_clause(text: str) -> Iterator[str]:
    """A loop that adds into shared lanes is given to threads."""
    start = bodies_start(text)
    serial = re.sub(r"^#pragma omp parallel.*\n", "", text, flags=re.M)
    yield from at_each(
        serial,
        r"^( +)for \(int (r\d+) = 0; \2 < \d+; \+\+\2\) \{\n"
        r"(?=#pragma omp simd\n +for \(int l(?s:(?!^\1\}).)*? \+= )",
        r"#pragma omp parallel for schedule(static, 1)\n\g<0>",
        start,
    )


# -- the prelude -----------------------------------------------------------------------------------


def exp_without_underflow(text: str) -> Iterator[str]:
    """The exponential of very negative numbers is left to chance."""
    yield from at_each(text, r"^  p = x < -87\.4f \? 0\.0f : p;\n", "")


def exp_without_overflow(text: str) -> Iterator[str]:
    """The exponential of very large numbers is left to chance."""
    yield from at_each(text, r"return x > 88\.8f \? INF : p;", "return p;")


def tanh_without_saturation(text: str) -> Iterator[str]:
    """The hyperbolic tangent of large numbers is left to chance."""
    yield from at_each(text, r"a > 10\.0f \? 1\.0f : t / \(t \+ 2\.0f\)", "t / (t + 2.0f)")


def tanh_saturates_early(text: str) -> Iterator[str]:
    """The hyperbolic tangent is 1 from 3 on."""
    yield from at_each(text, r"a > 10\.0f \?", "a > 3.0f ?")


def logarithm_of_subnormals(text: str) -> Iterator[str]:
    """Subnormal arguments of the logarithm are not scaled first."""
    yield from at_each(text, r"const bool tiny = x < 1\.17549435e-38f;", "const bool tiny = false;")


def coarse_polynomial(text: str) -> Iterator[str]:
    """The last coefficient of an approximation is wrong in the third digit."""
    start = bodies_start(text)
    pattern = r"(p = p \* \w+ [+-] )(0\.\d+)f(?=;\n(?!  p = p \* \w+ [+-] 0))"
    for prelude in at_each(text[:start], pattern, lambda m: f"{m[1]}{float(m[2]) * 1.003:.9g}f"):
        yield prelude + text[start:]


def last_of_equals(text: str) -> Iterator[str]:
    """Of equal largest values the last one's position is given."""
    if "argmax" in text:
        changed = text.replace("INT32_MAX", "-1").replace(": 2147483647", ": -1")
        changed = re.sub(r"nanmin\((\w+_first)", r"nanmax(\1", changed)
        yield re.sub(r"lanes_min\((\w+_first)", r"lanes_max(\1", changed)


def nan_lost_in_max(text: str) -> Iterator[str]:
    """A maximum ignores NaN."""
    yield from at_each(text, r"\(\(b > a\) \| \(b != b\)\) \? b : a", "(b > a) ? b : a")


BODY: dict[str, Operator] = {
    f.__name__: f
    for f in (
        tail_dropped, tail_short, last_block_missing, last_row_missing, one_too_many, one_row_too_many,
        window_too_wide, window_too_narrow, max_from_zero, sum_not_cleared, product_from_zero, carry_lost,
        half_of_the_lanes, first_part_only, one_less_in_the_mean, sum_in_bf16, sum_in_half, input_in_bf16,
        input_in_tf32, scan_in_float, float_total, eps_dropped, eps_changed, maximum_not_subtracted,
        clip_dropped, reduction_keeps_first, other_sign, sum_for_product, constant_off, scaled_twice,
        threshold_moved, equal_counts_too, branches_swapped, wrong_stride, broadcast_lost, neighbour_read,
    )
}  # fmt: skip
BETWEEN_THREADS: dict[str, Operator] = {
    f.__name__: f for f in (shared_accumulator, shared_scratch, reduction_without_a_clause)
}
PRELUDE: dict[str, Operator] = {
    f.__name__: f
    for f in (
        exp_without_underflow, exp_without_overflow, tanh_without_saturation, tanh_saturates_early,
        logarithm_of_subnormals, coarse_polynomial, last_of_equals, nan_lost_in_max,
    )
}  # fmt: skip
BY_LUCK = frozenset(
    {
        *BETWEEN_THREADS,
        "one_row_too_many",
        "one_too_many",
        "sum_not_cleared",
    }
)
"""Operators whose mutants are right now and then: threads that do not meet, memory that holds zeros."""
