"""The base class of tile operators: frozen records that are encoded as calls in the IR.

    @tile_operator("tl.fill")
    class Fill(TileOp):
        dst: Region = writes()
        value: Any = operand()

declares the operator ``tl.fill``; ``Fill(dst, value).to_stmt(span)`` puts it in the IR, and ``decode(call)`` gives the
record back. Operand fields become arguments of the call, all others its attributes. One file declares one family; its
:meth:`TileOp.check` says what is legal, independent of any target. A target lowers the record (see ``target/*/``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tilelang.ir import nodes as ir
from tilelang.ir.arrays import items
from tilelang.ir.expr import as_int, constant
from tilelang.ir.region import Region
from tilelang.policy import GemmWarpPolicy as GemmWarpPolicy  # programs import it from here

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """What the type checker takes from ``typing_extensions``: nothing at run time."""
        return lambda function: function


_Op = TypeVar("_Op", bound="TileOp")

OPERATORS: dict[str, type[TileOp]] = {}
"""Every tile operator by its name in the IR."""

# TVM's CallEffectKind.kOpaque: the call may do anything, so that no pass of TVM removes, repeats or moves it.
_OPAQUE = 4
_CALL_EFFECT = "TCallEffectKind"


def reads() -> Any:
    """A field for a region that the operator reads."""
    return dataclasses.field(metadata={"access": "r"})


def writes() -> Any:
    """A field for a region that the operator overwrites."""
    return dataclasses.field(metadata={"access": "w"})


def updates() -> Any:
    """A field for a region that the operator reads and writes."""
    return dataclasses.field(metadata={"access": "rw"})


def operand(default: Any = dataclasses.MISSING) -> Any:
    """A field for a scalar expression, or for None."""
    return dataclasses.field(default=default, metadata={"access": ""})


def operands() -> Any:
    """The last field, of any number of scalar expressions: a tuple."""
    return dataclasses.field(default=(), metadata={"access": "", "many": True})


class TileOp:
    """Base of the tile operators."""

    op_name: str
    by_iteration = False
    """Whether an iteration of ``T.Parallel`` may perform it by itself."""
    is_atomic = False
    """Whether it updates each element of what it writes by an atomic operation, at the element's address."""

    @property
    def called(self) -> str:
        """How programs call it, for messages."""
        return f"T.{self.op_name.removeprefix('tl.')}"

    def check(self) -> None:
        """Raises a :class:`~tilelang.errors.CompileError` where the operands do not fit each other."""

    @classmethod
    def operand_fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields that become arguments of the call, in order."""
        return tuple(f for f in dataclasses.fields(cast(Any, cls)) if "access" in f.metadata)

    @classmethod
    def attribute_fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields that become attributes of the call."""
        return tuple(f for f in dataclasses.fields(cast(Any, cls)) if "access" not in f.metadata)

    def regions(self) -> list[tuple[Region, str]]:
        """Each region operand with how it is accessed: ``"r"``, ``"w"`` or ``"rw"``."""
        pairs = ((getattr(self, f.name), f.metadata["access"]) for f in self.operand_fields())
        return [(value, access) for value, access in pairs if isinstance(value, Region)]

    def scalars(self) -> list[Any]:
        """The expressions among the operands."""
        return [value for value in self._operands() if isinstance(value, ir.PrimExpr)]

    def _operands(self) -> list[Any]:
        given: list[Any] = []
        for field in self.operand_fields():
            value: Any = getattr(self, field.name)
            given += value if field.metadata.get("many") else (value,)
        return given

    def register_numbers(self) -> tuple[Any, ...]:
        """The expressions that choose registers of a thread, where the program numbers them itself."""
        return ()

    def with_axis_before(self, buffers: Collection[Any]) -> Any:
        """The operator once its regions of ``buffers`` have one more axis in front, of length one: numbers of axes shift."""
        return self

    def to_call(self, span: Any = None) -> Any:
        """The call expression of this operator."""
        arguments = list(map(_encode, self._operands()))
        attributes = {f.name: getattr(self, f.name) for f in self.attribute_fields()}
        attributes = {name: value for name, value in attributes.items() if value is not None}
        node = ir.ir.make_node("ir.DictAttrs", **attributes) if attributes else None
        return ir.Call(ir.Op.get(self.op_name), arguments, attrs=node, ret_ty="int32", span=span)

    def to_stmt(self, span: Any = None) -> Any:
        """The statement that performs this operator."""
        return ir.Evaluate(self.to_call(span), span)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed."""
        return dataclasses.replace(cast(Any, self), **changes)


def _encode(value: Any) -> Any:
    if value is None:
        # Arguments are told by position, so that a missing one needs a value of its own; no operand is a text.
        return ir.StringImm("none")
    if isinstance(value, Region):
        return value.to_expr()
    return constant(value)


def _decode(value: Any) -> Any:
    if isinstance(value, ir.StringImm) and value.value == "none":
        return None
    if isinstance(value, ir.TensorRegion):
        return Region.of(value)
    return as_int(value) if isinstance(value, ir.IntImm) else value


def plain(value: Any) -> Any:
    """A Python value from an attribute: integers, strings, and tuples for arrays; IR nodes stay as they are."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, ir.IntImm):
        return bool(value.value) if str(value.ty) == "bool" else int(value.value)
    if isinstance(value, ir.FloatImm):
        return float(value.value)
    if isinstance(value, ir.StringImm):
        return str(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    # By name: the containers of tvm-ffi have other classes in other versions.
    if type(value).__name__ in ("Array", "List", "list", "tuple"):
        return tuple(plain(item) for item in value)
    return value


def register_op(name: str, effect: int = _OPAQUE) -> None:
    """Registers ``name`` with TVM as an operator of any number of arguments; ``effect`` is a ``CallEffectKind`` value."""
    if name in ir.Op.list_op_names():
        return
    ir.ir._ffi_api.RegisterOp(name, name)
    ir.ir.register_op_attr(name, _CALL_EFFECT, effect)
    ir.ir.register_op_attr(name, "TScriptPrinterName", name)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(reads, writes, updates, operand, operands))
def tile_operator(name: str) -> Callable[[type[_Op]], type[_Op]]:
    """Class decorator: makes a frozen record of the class and registers it as the operator ``name``."""

    def register(cls: type[_Op]) -> type[_Op]:
        if name in OPERATORS:
            raise ValueError(f"{name} is declared in {OPERATORS[name].__module__} and in {cls.__module__}")
        register_op(name)
        record = dataclasses.dataclass(frozen=True, eq=False)(cls)
        record.op_name = name
        OPERATORS[name] = record
        return record

    return register


def is_tile_op(expr: Any) -> bool:
    """Whether ``expr`` is a call to a tile operator."""
    return isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name in OPERATORS


def record_of(stmt: Any) -> Any:
    """The tile operator that a statement is; None of any other statement."""
    return decode(stmt.value) if type(stmt) is ir.Evaluate and is_tile_op(stmt.value) else None


def decode(call: Any) -> TileOp:
    """The record of a tile operator call."""
    cls = OPERATORS[call.op.name]
    fields = cls.operand_fields()
    arguments = items(call.args)
    values = {f.name: _decode(value) for f, value in zip(fields, arguments)}
    if fields and fields[-1].metadata.get("many"):
        values[fields[-1].name] = tuple(arguments[len(fields) - 1 :])
    attributes = call.attrs
    for f in cls.attribute_fields():
        if attributes is not None and f.name in attributes:
            values[f.name] = plain(attributes[f.name])
    return cls(**values)
