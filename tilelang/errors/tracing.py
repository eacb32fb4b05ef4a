"""Python in a kernel that cannot be traced, and what exceptions of Python and TVM mean there."""

from __future__ import annotations

import re

from tilelang.errors.base import CompileError, Location
from tilelang.errors.program import RunTimeValueError


class SourceUnavailableError(CompileError):
    """The text of a kernel function cannot be found."""

    def __init__(self, name: str, file: str):
        super().__init__(
            f"the source of {name}() is not available ({file})",
            hint="define kernels in a file or a notebook cell, or keep the text in a variable of the code that calls exec()",
        )


class UnsupportedSyntaxError(CompileError):
    """A Python construct that kernels do not support."""

    def __init__(self, what: str, location: Location | None = None):
        super().__init__(
            f"{what} is not supported inside a kernel",
            location,
            hint="move it to a helper function outside of the kernel, or compute it before",
        )


_ONE_TILE = "use one tile with an axis more (tile[i % 2, ...]), or a Python loop, which is unrolled"


class CarriedValueError(CompileError):
    """An immutable value that a loop would have to carry from one iteration to the next."""

    def __init__(self, name: str, location: Location | None = None, is_memory: bool = False):
        what = "the memory that it names cannot change there" if is_memory else "it is an immutable value"
        super().__init__(
            f"{name!r} is read and reassigned in a run-time loop, but {what}",
            location,
            hint=_ONE_TILE if is_memory else f"declare it before the loop: {name} = T.alloc_var(dtype, init=value)",
        )


class StaleValueError(CompileError):
    """A name whose value depends on which path the kernel took at run time."""

    def __init__(self, name: str, where: str, location: Location | None = None, is_memory: bool = False):
        super().__init__(
            f"{name!r} was assigned inside a run-time {where} and cannot be used after it",
            location,
            hint=_ONE_TILE if is_memory else f"declare it before: {name} = T.alloc_var(dtype, init=value)",
        )


class ComputedKeyError(RunTimeValueError):
    """An item of a Python set, or a key of a dict, that the kernel computes: Python tells them apart while it is traced."""

    def __init__(self, location: Location | None = None):
        super().__init__(
            "an item of a Python set, or a key of a dict, is a run-time value",
            location,
            hint="a tuple may hold it: x in (a, b); T.alloc_local((n,), dtype) is an array of the kernel",
        )


_VARIABLE = "T.alloc_var(dtype, init=value) is a variable of the kernel"

RANDOM_NUMBERS = "generator of random numbers"
"""The kind of what functions of a module draw from."""

_INSTEAD = {
    **dict.fromkeys(("attribute", "variable", "iterator"), _VARIABLE),
    RANDOM_NUMBERS: "T.rng_rand draws in the kernel, after T.rng_init(seed)",
}
"""Kind of what changes -> what the kernel has in its place; of all others, an array."""


class ChangedContainerError(CompileError):
    """A Python container, attribute or outer variable that a run-time loop or condition changes: once, while it is traced."""

    def __init__(self, name: str, kind: str, where: str):
        instead = _INSTEAD.get(kind, ARRAY_OF_THE_KERNEL)
        super().__init__(
            f"{name!r} is a Python {kind}, which a run-time {where} changes once, while it is traced",
            hint=f"{instead}; `for i in (0, 1, 2)` is a loop of Python",
        )


HELD_BY_PYTHON = "held"
"""What the front end calls a value that a program put into a Python list or attribute."""


class OutOfScopeError(CompileError):
    """A value that is used after the end of the loop or branch that defines it.

    Args:
        name: of the value.
        location: of its use.
        memory: whether it is a tile, an array or a variable.
    """

    def __init__(self, name: str, location: Location | None = None, memory: bool = False):
        if name.startswith(HELD_BY_PYTHON):
            message = "a value that a run-time loop or condition put into a Python list or attribute is used outside of it"
            hint = "what a kernel computes is kept in T.alloc_local or T.alloc_var"
        else:
            message = f"{name!r} is used outside of the scope that defines it"
            variable = "keep it in a T.alloc_var declared before the loop or condition"
            hint = "allocate it in each kernel; make a view in the scope that uses it" if memory else variable
        super().__init__(message, location, hint=hint)


class TraceError(CompileError):
    """Python raised an exception while a kernel was being traced."""

    def __init__(self, error: BaseException):
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        for pattern, message, hint in _MEANINGS:
            if found := re.search(pattern, str(error)):
                super().__init__(found.expand(message) if message else said, hint=hint)
                return
        super().__init__(said)


_MACRO = "decorate the helper with @T.macro to trace it"

_OWN_FUNCTIONS = "functions of other libraries do not take run-time values; use this language's: T.sqrt, T.exp, T.max, …"

IS_TUPLE = "a loop or grid of several extents gives a tuple: for i, j in T.Parallel(m, n), with T.Kernel(m, n) as (bx, by)"
"""What to do about a tuple of variables where one is expected."""

ARRAY_OF_THE_KERNEL = "T.alloc_local((n,), dtype) is an array of the kernel"
"""What to do about a scalar where an array is expected."""

INTEGER_DIVISION = "use //, or cast one side: T.float32(x) / y"
"""What to do about ``/`` of integers."""

FLOAT_DIVISION = "use T.floor(a / b), T.fmod(a, b)"
"""What to do about ``//`` and ``%`` of floats."""

_BITS = "T.reinterpret(x, 'int32') has the bits of a float32, T.cast(x, 'int32') its value"

_OPERATORS = "operators are functions: T.reduce_sum(tile, out, dim=1), T.transpose(tile, out), T.exp(x), T.cast(x, dtype)"

LOOP_OVER_A_TENSOR = "for i in T.serial(n): ... A[i] ..., or T.Parallel"
"""What to do where a tensor is iterated over."""

_SLICE = "'(?:Slice|StridedSlice|Computed)'"
"""How Python's messages name slices and arithmetic on them."""

_SCALAR = "'(?:Add|Sub|Mul|Div|Mod|FloorDiv|FloorMod|Min|Max|Cast|Call|Select|Let|EQ|NE|LT|LE|GT|GE|And|Or|Not|IntImm|FloatImm)'"
"""How Python's messages name the type of a value that the kernel computes."""

_VALUE = f"'?(?:TensorLoad|Var|LocalVar|ReadVar|ElementRef|{_SCALAR[4:-2]})'?"
"""The same, also of elements and variables, and without the quotes that some messages leave out."""

_MEANINGS: tuple[tuple[str, str | None, str | None], ...] = (
    ("Cannot use and / or / not operator to Expr", "a run-time value is used where Python needs True or False", _MACRO),
    ("'(Var|TensorLoad)' object does not support item assignment", "a plain Python function cannot store to a buffer", _MACRO),
    (
        rf"{_VALUE} object cannot be interpreted as an integer|indices must be integers or slices, not {_VALUE}"
        rf"|multiply sequence by non-int of type {_VALUE}",
        "a run-time value is used where Python needs an integer",
        _MACRO,
    ),
    (
        rf"bad operand type for (abs)\(\): {_VALUE}|for (divmod)\(\): .*{_VALUE}|type {_VALUE} doesn't define __(round)__",
        "a plain Python function cannot compute \\1\\2\\3 of a run-time value",
        _MACRO,
    ),
    ("'LoopSpec' object is not reversible", "reversed of a run-time range", "for i in range(n - 1, -1, -1):"),
    (
        f"format: a(?:n integer| real number) is required, not {_VALUE}",
        "a text cannot hold a run-time value",
        "print(x) and print(f'{x}') print what the kernel computes",
    ),
    ("must be real number, not|must be Tensor, not|ufunc does not support", None, _OWN_FUNCTIONS),
    (
        "'KernelFrame'",
        "T.Kernel(...) is used as a value, but it is the context manager of a kernel's body",
        "write `with T.Kernel(...) as bx:`, or `as (bx, by)` for a grid of two axes",
    ),
    (
        "unsupported operand type.* for @=?: ",
        "tiles are not multiplied by @",
        "T.gemm(A, B, C) adds the product of tiles A and B to C",
    ),
    (
        r"unsupported operand type\(s\) for (.*): (?:'\w+' and )?'(str|NoneType|list|dict|set|function)'",
        r"\1 of a value of the kernel and a Python \2",
        None,
    ),
    (
        r"Expected integer argument as .HS of (\S+) operator.*but received (.*) of type (?:T\.)?(\w+)",
        r"\1 takes integers, and \2 is a \3",
        _BITS,
    ),
    ("Cannot use ~ operator on float", "~ takes integers and conditions, not floats", _BITS),
    ("object doesn't support item deletion", "an element of a tensor cannot be deleted", "A[i] = 0 stores to it"),
    (
        "property (?:'getter' )?of 'Var' object has no setter|^can't set attribute$",
        "the shape and the dtype of a tensor cannot be changed",
        "T.reshape and T.view give its memory another shape or dtype",
    ),
    (r"'LocalVar' object has no attribute '(\w+)'", r"a variable of a kernel has no attribute '\1'", "x = value stores to it"),
    (
        r"^(?:cannot access )?(?:local|free) variable '(\w+)' (?:where it is not associated|referenced before)",
        r"'\1' holds nothing here",
        "assign it in a statement before; `del` is done while the kernel is traced, also in a run-time condition",
    ),
    (
        r"can only concatenate tuple|unsupported operand type\(s\) for .*'tuple'|bad operand type for .*: 'tuple'"
        "|multiply sequence by non-int",
        "a tuple is used as a number",
        IS_TUPLE,
    ),
    (
        "unsupported operand type.* 'Var'",
        None,
        "operators take elements or slices: B[:] = A[:] + 1, or B[i] = A[i] + 1 below for i in T.Parallel(n)",
    ),
    (
        rf"(?:'(?:Var|TensorLoad)' object|{_SCALAR} object) has no attribute '(\w+)'",
        r"tensors and scalars of a kernel have no attribute '\1'",
        _OPERATORS,
    ),
    (f"{_SLICE} object has no attribute '(\\w+)'", r"slices of a kernel have no attribute '\1'", _OPERATORS),
    (f"{_SLICE} object is not iterable", "a slice of a kernel cannot be iterated over", LOOP_OVER_A_TENSOR),
    ("Type ir.PrimType does not support subscript", "a scalar of a kernel has no elements", ARRAY_OF_THE_KERNEL),
    (
        f"{_SCALAR} object is not callable|A primitive-valued expression cannot be called",
        "a scalar of a kernel is called like a function",
        None,
    ),
    (f"object of type {_SCALAR} has no len", "a scalar of a kernel has no len()", None),
    ("object of type 'Var' has no len", "a tensor of a kernel has no len()", "its sizes are A.shape"),
    ("(?s)^Expression of type .*BufferType.* cannot be called", "a buffer is called like a function", "index it: A[i, j]"),
    (
        "^list index out of range$",
        None,
        "the body of a run-time loop is traced once, and appends once; a loop over a Python list is repeated while compiling,"
        " and T.alloc_local((n,), dtype) is an array of the kernel",
    ),
    ("^TVM supports multiple types of integer divisions", "/ between two run-time integers", INTEGER_DIVISION),
    (r"^Check failed: .*DLDataTypeCode::kDLInt.* is false: (?!Expected)", "// and % of floating-point values", FLOAT_DIVISION),
    (r"^Check failed: .* is false: (.*)", r"\1", None),
)
"""What exceptions of TVM and of libraries that get its expressions say, what it means (None: what they say), and what to do."""
