"""What becomes of a value that code puts on the stack: is it called and nothing else, as in ``tilelang.jit(out_idx=[-1])``; is it
part of an exception that is raised at once?"""

from __future__ import annotations

import opcode
from collections.abc import Callable
from types import CodeType

from tilelang.fingerprint.opcodes import VERSION

_IGNORED = frozenset("CACHE EXTENDED_ARG KW_NAMES NOP PRECALL".split())
_CALLS: dict[str, int] = {"CALL_FUNCTION": 1, "CALL_METHOD": 2, "CALL": 2, "CALL_FUNCTION_KW": 2, "CALL_KW": 3}
"""Instruction -> how much a call takes besides the arguments: the function, its object, the names of keywords."""
_CALLS["CALL_FUNCTION_EX"] = 1 if VERSION < (3, 11) else 2
_BY_KEYWORD = frozenset(("CALL_FUNCTION_KW", "CALL_KW"))


def _flags(argument: int) -> int:
    return bin(argument).count("1")


_NULL_WITH_GLOBAL = 1 if VERSION >= (3, 11) else 0
_NULL_WITH_ATTRIBUTE = 1 if VERSION >= (3, 12) else 0
_OF_FUNCTION = 2 if VERSION < (3, 11) else 1
_EFFECTS: dict[str, Callable[[int], tuple[int, int]]] = {
    # instruction -> of its argument: how many values it takes, or looks at, and how many are there instead
    **dict.fromkeys(
        "LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_DEREF LOAD_CLOSURE LOAD_NAME LOAD_CLASSDEREF PUSH_NULL".split(),
        lambda argument: (0, 1),
    ),
    "LOAD_FAST_LOAD_FAST": lambda argument: (0, 2),
    "LOAD_GLOBAL": lambda argument: (0, 1 + (argument & _NULL_WITH_GLOBAL)),
    "LOAD_ATTR": lambda argument: (1, 1 + (argument & _NULL_WITH_ATTRIBUTE)),
    "LOAD_METHOD": lambda argument: (1, 2),
    **dict.fromkeys(("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET"), lambda argument: (argument, 1)),
    "BUILD_MAP": lambda argument: (2 * argument, 1),
    "BUILD_CONST_KEY_MAP": lambda argument: (argument + 1, 1),
    **dict.fromkeys(("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"), lambda argument: (1 + argument, argument)),
    **dict.fromkeys(("BUILD_STRING", "BUILD_SLICE"), lambda argument: (argument, 1)),
    **dict.fromkeys(("LIST_TO_TUPLE", "CALL_INTRINSIC_1", "FORMAT_SIMPLE", "CONVERT_VALUE"), lambda argument: (1, 1)),
    **dict.fromkeys(("COMPARE_OP", "CONTAINS_OP", "IS_OP", "FORMAT_WITH_SPEC"), lambda argument: (2, 1)),
    "FORMAT_VALUE": lambda argument: (1 + bool(argument & 4), 1),
    "MAKE_FUNCTION": lambda argument: (_OF_FUNCTION + (_flags(argument) if VERSION < (3, 13) else 0), 1),
    "SET_FUNCTION_ATTRIBUTE": lambda argument: (2, 1),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT"), lambda argument: (1, 1)),
    **dict.fromkeys((name for name in opcode.opmap if name.startswith("BINARY_")), lambda argument: (2, 1)),
    "BINARY_SLICE": lambda argument: (3, 1),
}


def _arguments(name: str, argument: int) -> int | None:
    """How many values a call takes from above the function; None for any other instruction."""
    if name == "CALL_FUNCTION_EX":  # a tuple and, by a bit, a dictionary
        return 1 + (argument & 1)
    return argument if name in _CALLS else None


def is_called(code: CodeType, offset: int) -> bool:
    """Whether the next instruction that takes the value of the one at ``offset`` calls it. Of arguments that are not simple
    (conditions, comprehensions) nothing is known."""
    raw, above, extended = code.co_code, 0, 0
    for place in range(offset + 2, len(raw), 2):
        name, argument = opcode.opname[raw[place]], raw[place + 1] | extended
        extended = argument << 8 if name == "EXTENDED_ARG" else 0
        if name in _IGNORED:
            continue
        # `above` counts the values on the stack above the followed one. A call takes its arguments and the function below them:
        # the followed value is the function if nothing but arguments lies above it.
        count = _arguments(name, argument)
        if count is not None:
            taken, given = count + _CALLS[name], 1
            if taken > above:
                return above >= count + (name in _BY_KEYWORD)
        elif name in _EFFECTS:
            taken, given = _EFFECTS[name](argument)
            if taken > above:
                return False
        else:
            return False
        above += given - taken
    return False


_STRAIGHT = (
    "LOAD_",
    "CALL",
    "FORMAT_",
    "CONVERT_",
    "BUILD_",
    "BINARY_",
    "UNARY_",
    "COMPARE_",
    "COPY",
    "SWAP",
    "DUP_",
    "ROT_",
    "PUSH_NULL",
)
"""Beginnings of the names of instructions that work on the stack alone, and go on to the next one."""


def is_raised(code: CodeType, offset: int) -> bool:
    """Whether the instructions from the one at ``offset`` on can only end in a ``raise``, as those of ``raise Error(f"{x}")``."""
    raw = code.co_code
    names = (opcode.opname[raw[place]] for place in range(offset, len(raw), 2))
    end = next((name for name in names if name not in _IGNORED and not name.startswith(_STRAIGHT)), "")
    return end == "RAISE_VARARGS"
