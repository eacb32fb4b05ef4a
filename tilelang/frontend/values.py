"""Values that stand for expressions in user code: mutable scalars and dynamic sizes.

Plain expressions are TVM's own objects. The classes here behave like expressions too, but are resolved only where they are
used, so neither needs TVM to exist.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

from tilelang.dtypes import DType, canonical

_BINARY = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor".split()
_COMPARISONS = "lt le gt ge eq ne".split()
_UNARY = "neg pos invert".split()


class ExprLike:
    """Base of the values that turn into an expression when they are used."""

    __slots__ = ()

    def expr(self) -> Any:
        """The TVM expression of this value at the present point of the trace."""
        raise TypeError(f"{type(self).__name__} has no value")

    def __tvm_ffi_object__(self) -> Any:
        return self.expr()

    def __bool__(self) -> bool:
        return bool(self.expr())

    __hash__ = object.__hash__


def _binary(name: str) -> tuple[Any, Any]:
    function = getattr(operator, name)

    def forward(self: ExprLike, other: Any) -> Any:
        return function(self.expr(), as_operand(other))

    def reflected(self: ExprLike, other: Any) -> Any:
        return function(as_operand(other), self.expr())

    return forward, reflected


def _unary(name: str) -> Any:
    function = getattr(operator, name)
    return lambda self: function(self.expr())


for _name in _BINARY:
    _forward, _reflected = _binary(_name)
    setattr(ExprLike, f"__{_name.rstrip('_')}__", _forward)
    setattr(ExprLike, f"__r{_name.rstrip('_')}__", _reflected)
for _name in _COMPARISONS:
    setattr(ExprLike, f"__{_name}__", _binary(_name)[0])
for _name in _UNARY:
    setattr(ExprLike, f"__{_name}__", _unary(_name))


class BufferLike:
    """Base of values that can be used like a buffer: they can be indexed, and given to tile operators.

    Attributes:
        buffer: the buffer of the program.
    """

    __slots__ = ()

    buffer: Any


class Tile:
    """An array of values: a slice of a buffer, or arithmetic on slices; see :mod:`tilelang.frontend.tiles`.

    Attributes:
        lengths: its shape.
        reads: the slices whose elements it is computed from.
        at: gives the value of an element by its index.
    """

    __slots__ = ()

    lengths: tuple[Any, ...]
    reads: tuple[Any, ...]
    at: Any

    __hash__ = object.__hash__

    def astype(self, dtype: Any) -> Any:
        """The values converted to another type, as expressions have it."""
        from tilelang.frontend.tiles import converted

        return converted(self, dtype)

    def __bool__(self) -> bool:
        """A slice is neither true nor false.

        Raises:
            OperandError: always.
        """
        from tilelang.errors import OperandError

        raise OperandError("a slice has no truth value", hint="combine conditions on slices with &, | and ~, or name an element")


_moments = itertools.count()


def moment() -> int:
    """The present moment: later than all before it."""
    return next(_moments)


class LocalVar(ExprLike):
    """A mutable scalar made by ``T.alloc_var``: reading it loads, assigning to its name stores.

    Attributes:
        buffer: its one-element buffer of scope ``local.var``.
        fresh: whether it was just allocated and not yet bound to a name.
        made: the moment when it was.
    """

    __slots__ = ("buffer", "fresh", "made")

    def __init__(self, buffer: Any):
        self.buffer = buffer
        self.fresh = True
        self.made = moment()

    indices: tuple[Any, ...] = (0,)

    def __deepcopy__(self, memo: Any) -> Any:
        return ReadVar(self)

    def expr(self) -> Any:
        """A load of the variable."""
        return self.buffer[self.indices]

    @property
    def dtype(self) -> DType:
        """Element type."""
        return canonical(str(self.buffer.dtype))

    def __getitem__(self, index: Any) -> Any:
        return self.buffer[as_operand(index)]


class ElementRef(LocalVar):
    """An element of a buffer that a macro's parameter names (``x: T.Ref``): reading it loads, assigning to it stores."""

    __slots__ = ("indices",)

    def __init__(self, buffer: Any, indices: tuple[Any, ...]):
        super().__init__(buffer)
        self.indices = indices
        self.fresh = False


class ReadVar(ElementRef):
    """A variable as an argument, or as an item of what a loop of Python goes through: it reads what the variable held there.

    Attributes:
        variable: itself, for a macro that takes it as ``T.Ref``.
        load: its value.
    """

    __slots__ = ("variable", "load")

    def __init__(self, variable: LocalVar):
        super().__init__(variable.buffer, variable.indices)
        self.variable = variable
        self.load = variable.expr()

    def expr(self) -> Any:
        return self.load


class VectorVar(ElementRef):
    """A mutable vector made by ``T.alloc_var``: all lanes of its buffer at once; an index picks one."""

    __slots__ = ()

    def __init__(self, buffer: Any, lanes: Any):
        super().__init__(buffer, (lanes,))
        self.fresh = True

    @property
    def dtype(self) -> DType:
        """The vector type."""
        return canonical(str(self.expr().ty))


class DynamicSize(ExprLike):
    """A size or stride that is only known when the kernel is called (``T.dynamic``).

    Attributes:
        name: its name in messages and generated code.
        dtype: integer type, ``int32`` unless it may exceed 2**31 - 1.
    """

    __slots__ = ("name", "dtype", "_var")
    # Made at the first use, of the name and the type, which are in the fingerprint: sizes with and without it are equal.
    __tilelang_fingerprint__ = ("_var",)

    def __init__(self, name: str, dtype: DType):
        self.name = name
        self.dtype = dtype
        self._var: Any = None

    def expr(self) -> Any:
        """The variable: one for each name in a program, whichever object named it first."""
        if self._var is None:
            from tilelang.ir import nodes as ir

            self._var = ir.Var(self.name, str(self.dtype))
        from tilelang.frontend.builder import active_builder

        builder = active_builder()
        return self._var if builder is None else builder.dynamic_size(self.name, self._var)

    def __repr__(self) -> str:
        return f"T.dynamic({self.name!r})"

    # A copy makes a variable of its own; a program takes sizes of one name for the same, whichever object names them.
    def __reduce__(self) -> tuple:
        return DynamicSize, (self.name, self.dtype)


class Unusable:
    """The placeholder of a name whose value depends on run-time control flow; any use is an error.

    Args:
        error: that error.
        value: what the name held, if anything.
    """

    __slots__ = ("_error", "_value")

    def __init__(self, error: Exception, value: Any = None):
        # The class turns every attribute access into the error, so its own must go around it.
        object.__setattr__(self, "_error", error)
        object.__setattr__(self, "_value", value)

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        raise object.__getattribute__(self, "_error")

    __getattr__ = __call__ = __getitem__ = __setitem__ = __iter__ = __bool__ = __index__ = __int__ = __float__ = _fail
    # tvm-ffi looks for `__tvm_ffi_object__` in arguments of its functions, so that these refuse the name, too.
    __len__ = __tvm_ffi_object__ = _fail
    __hash__ = object.__hash__


def last_value(name: Unusable) -> Any:
    """What a name held before it became unusable."""
    return object.__getattribute__(name, "_value")


for _name in [*_BINARY, *_COMPARISONS, *_UNARY, "pow"]:
    setattr(Unusable, f"__{_name.rstrip('_')}__", Unusable._fail)
    setattr(Unusable, f"__r{_name.rstrip('_')}__", Unusable._fail)


def as_operand(value: Any) -> Any:
    """``value`` ready for TVM's operators: expression-like values become expressions, deferred comparisons are resolved."""
    if isinstance(value, ExprLike):
        return value.expr()
    if isinstance(value, Unusable):
        value._fail()
    # `a == b` of TVM's expressions is an object that decides later between a comparison and a test of identity.
    resolve = getattr(value, "asobject", None)
    return resolve() if resolve is not None else value


def as_expr(value: Any, dtype: str | None = None) -> Any:
    """``value`` as a TVM expression; a Python number becomes an immediate of ``dtype`` (int32 or float32 by default).

    As where it is stored, a number that a type of fewer than 32 bits does not hold wraps around, and so does a negative one that
    an unsigned type does not: -1 has all bits set. A bool is whether the number is not zero.

    Raises:
        OperandError: the value is no scalar.
    """
    from tilelang.ir import nodes as ir
    from tilelang.ir.expr import constant, float_constant

    value = as_operand(value)
    if isinstance(value, ir.PrimExpr):
        if ir.is_buffer_var(value):
            element, whole = (", ".join([index] * len(value.shape)) for index in ("0", ":"))
            hint = f"{value.name}[{element}] is an element, and {value.name}[{whole}] all of them"
            raise _operand_error(f"buffer {value.name} is used as a scalar", hint if element else None)
        return value
    if isinstance(value, bool):
        return ir.IntImm("bool", int(value))
    # Scalars of NumPy, and torch's tensors of one element.
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()
    if isinstance(value, int):
        kind = canonical(dtype or "int32")
        if kind.kind == "bool":
            return ir.IntImm(str(dtype), int(value != 0))
        if kind.is_integer:
            return constant(_low_bits(value, kind), str(dtype or "int32"))
        return float_constant(float(value), str(dtype)) if canonical(dtype).is_float else ir.IntImm(str(dtype), value)
    if isinstance(value, float):
        kind = canonical(dtype) if dtype else None
        return float_constant(value, str(kind) if kind and kind.is_float else "float32")
    raise _not_a_scalar(value)


_SHOWN = 100
"""Characters of a mistaken value that an error shows."""


def _not_a_scalar(value: Any) -> Exception:
    from tilelang.errors.tracing import IS_TUPLE
    from tilelang.frontend.tiles import Tile

    if isinstance(value, Tile):
        shape = " x ".join(map(str, value.lengths))
        return _operand_error(f"a slice of {shape} elements is used as a scalar", "name an element by an index for each axis")
    text = f"{value!r}"
    text = text if len(text) < _SHOWN else text[:_SHOWN] + " …"
    hint = IS_TUPLE if isinstance(value, tuple) else None
    return _operand_error(f"expected a scalar, got {type(value).__name__} {text}", hint)


def _operand_error(message: str, hint: str | None) -> Exception:
    from tilelang.errors import OperandError

    return OperandError(message, hint=hint)


def _low_bits(value: int, kind: DType) -> int:
    """``value`` as an element of type ``kind`` would hold it; of 32 bits and more, only a negative one wraps around."""
    if kind.bits >= 32 and (kind.kind == "int" or not -(1 << (kind.bits - 1)) <= value < 0):
        return value
    low = value & ((1 << kind.bits) - 1)
    return low - (1 << kind.bits) if kind.kind == "int" and low >> (kind.bits - 1) else low


def is_symbolic(value: Any) -> bool:
    """Whether ``value`` is only known at run time (an expression that is not a constant)."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return False
    if isinstance(value, ExprLike):
        return True
    from tilelang.ir import nodes as ir

    value = as_operand(value)
    return isinstance(value, ir.PrimExpr) and not isinstance(value, (ir.IntImm, ir.FloatImm, ir.StringImm))


def is_typed_constant(value: Any) -> bool:
    """Whether ``value`` is a number of a type of the language, such as ``T.int8(3)``."""
    if isinstance(value, (int, float)):
        return False
    from tilelang.ir import nodes as ir

    return isinstance(value, (ir.IntImm, ir.FloatImm))
