"""Byte code of CPython 3.10 to 3.13 as a short list of steps: what each instruction can read from outside its function.

An instruction that is in no table, as a newer Python's, has no meaning here; its code has no fingerprint.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

VERSION = sys.version_info[:2]

GLOBAL, FREE, LOCAL, ATTRIBUTE, CONSTANT = "global", "free", "local", "attribute", "constant"
IMPORT, IMPORT_FROM, STORE, STORE_IN_CLASS = "import", "import from", "store", "store in class"
CONTAINS, IDENTITY, SUBSCRIPT, CALL, CALL_BY_KEYWORD, SET, CLASS_PATTERN, HANDLER, WITH, FORMAT, OTHER = (
    "contains", "identity", "subscript", "call", "call by keyword", "set", "class pattern", "handler", "with", "format", "other",
)  # fmt: skip


class Step(NamedTuple):
    """One instruction.

    Attributes:
        kind: one of the names above.
        argument: a variable, an attribute, a constant, a module, the number of arguments of a call, whether a text is formatted
            by a specification, or an operator that adds to a set (``"|="``) or may make a text (``"%"``).
        offset: where it is, as jump targets are given.
    """

    kind: str
    argument: Any
    offset: int


class UnknownInstruction(ValueError):
    """An instruction whose reads are not known."""


_NOTHING = frozenset("CACHE EXTENDED_ARG NOP PRECALL PUSH_NULL RESUME TO_BOOL".split())
"""Neither reads nor separates an attribute from what it is an attribute of."""

_KINDS = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_BUILD_CLASS"), GLOBAL),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), FREE),
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR"), LOCAL),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"), ATTRIBUTE),
    **dict.fromkeys(("STORE_FAST", "STORE_DEREF", "STORE_GLOBAL"), STORE),
    **dict.fromkeys(("BUILD_SET", "SET_ADD", "SET_UPDATE"), SET),
    **dict.fromkeys(("CALL", "CALL_FUNCTION", "CALL_METHOD"), CALL),
    **dict.fromkeys(("CALL_FUNCTION_KW", "CALL_KW", "KW_NAMES"), CALL_BY_KEYWORD),
    **dict.fromkeys(("PUSH_EXC_INFO", "SETUP_FINALLY"), HANDLER),
    "WITH_EXCEPT_START": WITH,
    **dict.fromkeys(("FORMAT_SIMPLE", "FORMAT_VALUE", "FORMAT_WITH_SPEC"), FORMAT),
    "LOAD_CONST": CONSTANT,
    "IMPORT_NAME": IMPORT,
    "IMPORT_FROM": IMPORT_FROM,
    "STORE_NAME": STORE_IN_CLASS,
    "CONTAINS_OP": CONTAINS,
    "IS_OP": IDENTITY,
    "BINARY_SUBSCR": SUBSCRIPT,
    "MATCH_CLASS": CLASS_PATTERN,
}
_FUSED = {
    # two instructions on variables in one, from Python 3.13
    "LOAD_FAST_LOAD_FAST": (LOCAL, LOCAL),
    "STORE_FAST_LOAD_FAST": (STORE, LOCAL),
    "STORE_FAST_STORE_FAST": (STORE, STORE),
}
_OTHERS = frozenset(
    # These work on what is on the stack, which other instructions have put there, and on the flow of control.
    "ASYNC_GEN_WRAP BEFORE_ASYNC_WITH BEFORE_WITH BINARY_ADD BINARY_AND BINARY_FLOOR_DIVIDE BINARY_LSHIFT"
    " BINARY_MATRIX_MULTIPLY BINARY_MODULO BINARY_MULTIPLY BINARY_OP BINARY_OR BINARY_POWER BINARY_RSHIFT BINARY_SLICE"
    " BINARY_SUBTRACT BINARY_TRUE_DIVIDE BINARY_XOR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP BUILD_SLICE BUILD_STRING"
    " BUILD_TUPLE CALL_FUNCTION_EX CALL_INTRINSIC_1 CALL_INTRINSIC_2 CHECK_EG_MATCH"
    " CHECK_EXC_MATCH CLEANUP_THROW COMPARE_OP CONVERT_VALUE COPY COPY_DICT_WITHOUT_KEYS COPY_FREE_VARS DELETE_ATTR"
    " DELETE_DEREF DELETE_FAST DELETE_GLOBAL DELETE_NAME DELETE_SUBSCR DICT_MERGE DICT_UPDATE DUP_TOP DUP_TOP_TWO"
    " END_ASYNC_FOR END_FOR END_SEND EXIT_INIT_CHECK FOR_ITER GEN_START"
    " GET_AITER GET_ANEXT GET_AWAITABLE GET_ITER GET_LEN GET_YIELD_FROM_ITER INPLACE_ADD INPLACE_AND"
    " INPLACE_FLOOR_DIVIDE INPLACE_LSHIFT INPLACE_MATRIX_MULTIPLY INPLACE_MODULO INPLACE_MULTIPLY INPLACE_OR"
    " INPLACE_POWER INPLACE_RSHIFT INPLACE_SUBTRACT INPLACE_TRUE_DIVIDE INPLACE_XOR JUMP_ABSOLUTE JUMP_BACKWARD"
    " JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_NOT_EXC_MATCH JUMP_IF_TRUE_OR_POP"
    " LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_ASSERTION_ERROR LOAD_CLOSURE LOAD_LOCALS MAKE_CELL"
    " MAKE_FUNCTION MAP_ADD MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE POP_BLOCK POP_EXCEPT POP_JUMP_BACKWARD_IF_FALSE"
    " POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE"
    " POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE"
    " POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PREP_RERAISE_STAR RAISE_VARARGS RERAISE"
    " RETURN_CONST RETURN_GENERATOR RETURN_VALUE ROT_FOUR ROT_N ROT_THREE ROT_TWO SEND SETUP_ANNOTATIONS SETUP_ASYNC_WITH"
    " SETUP_WITH SET_FUNCTION_ATTRIBUTE STORE_ATTR STORE_SLICE STORE_SUBSCR SWAP UNARY_INVERT UNARY_NEGATIVE"
    " UNARY_NOT UNARY_POSITIVE UNPACK_EX UNPACK_SEQUENCE YIELD_FROM YIELD_VALUE".split()
)
_OPERATORS = {
    ("INPLACE_OR", None): "|=", ("INPLACE_XOR", None): "^=", ("BINARY_OP", 20): "|=", ("BINARY_OP", 25): "^=",
    ("BINARY_MODULO", None): "%", ("INPLACE_MODULO", None): "%", ("BINARY_OP", 6): "%", ("BINARY_OP", 19): "%",
}  # fmt: skip
_IMPORT_STAR = 2  # the argument of CALL_INTRINSIC_1 that is `from module import *`
_WITH_SPEC = 4  # a bit of the argument of FORMAT_VALUE, until Python 3.12
_SUPPORTED = ((3, 10), (3, 11), (3, 12), (3, 13))


def steps(code: CodeType) -> Iterator[Step]:
    """The instructions of ``code`` that mean something to a reader.

    Raises:
        UnknownInstruction: one is of a kind that is not known.
    """
    if VERSION not in _SUPPORTED:
        raise UnknownInstruction(f"the byte code of Python {VERSION[0]}.{VERSION[1]} is not known")
    raw, argument, extended = code.co_code, 0, 0
    for offset in range(0, len(raw), 2):
        name = opcode.opname[raw[offset]]
        # Instructions are two bytes; EXTENDED_ARG holds the higher bits of the next one's argument.
        argument = raw[offset + 1] | extended
        extended = argument << 8 if name == "EXTENDED_ARG" else 0
        if name not in _NOTHING:
            yield from _step(code, name, argument, offset)


def _step(code: CodeType, name: str, argument: int, offset: int) -> Iterator[Step]:
    kind = _KINDS.get(name)
    if kind is LOCAL and _variable(code, argument) in (*code.co_cellvars, *code.co_freevars):
        yield Step(OTHER, None, offset)  # the cell itself, on its way into a closure
    elif kind is not None:
        decode = _DECODERS.get(name)
        yield Step(kind, argument if decode is None else decode(code, argument), offset)
    elif name in _FUSED:
        first, second = _FUSED[name]
        yield Step(first, code.co_varnames[argument >> 4], offset)
        yield Step(second, code.co_varnames[argument & 15], offset)
    elif name in _OTHERS and not (name == "CALL_INTRINSIC_1" and argument == _IMPORT_STAR):
        yield Step(OTHER, _OPERATORS.get((name, argument if name == "BINARY_OP" else None)), offset)
    else:
        raise UnknownInstruction(f"the instruction {name} is not known")


def _shifted(bits: int) -> Callable[[CodeType, int], str]:
    return lambda code, argument: code.co_names[argument >> bits]


def _variable(code: CodeType, argument: int) -> str:
    return code._varname_from_oparg(argument) if VERSION >= (3, 11) else code.co_varnames[argument]  # pyright: ignore[reportAttributeAccessIssue]


def _cell(code: CodeType, argument: int) -> str:
    if VERSION >= (3, 11):
        return code._varname_from_oparg(argument)  # pyright: ignore[reportAttributeAccessIssue]
    return (*code.co_cellvars, *code.co_freevars)[argument]


_NAME = _shifted(0)
_DECODERS: dict[str, Callable[[CodeType, int], Any]] = {
    "LOAD_CONST": lambda code, argument: code.co_consts[argument],
    "FORMAT_SIMPLE": lambda code, argument: False,
    "FORMAT_VALUE": lambda code, argument: bool(argument & _WITH_SPEC),
    "FORMAT_WITH_SPEC": lambda code, argument: True,
    "LOAD_GLOBAL": _shifted(1 if VERSION >= (3, 11) else 0),
    "LOAD_ATTR": _shifted(1 if VERSION >= (3, 12) else 0),
    "LOAD_SUPER_ATTR": _shifted(2),
    "LOAD_BUILD_CLASS": lambda code, argument: "__build_class__",
    **dict.fromkeys(
        ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_METHOD", "IMPORT_NAME", "IMPORT_FROM", "STORE_NAME", "STORE_GLOBAL"),
        _NAME,
    ),
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "STORE_FAST"), _variable),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF"), _cell),
}
