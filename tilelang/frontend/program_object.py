"""A traced program as a Python object: calls, copies, pickles, and the function that made it.

TVM's classes are extended here, since programs and their expressions are TVM's own objects.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

from tilelang.errors import MisplacedError
from tilelang.ir import nodes as ir
from tilelang.ir.pickling import Row, node_of, rows_of
from tilelang.ir.span import user_location

_factories: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def is_program(value: Any) -> bool:
    """Whether ``value`` is a traced program."""
    return isinstance(value, ir.PrimFunc)


def set_factory(program: Any, name: str) -> None:
    """Records the dotted name of the function in which a program was written."""
    _factories[program] = name


def factory_of(program: Any) -> str:
    """The dotted name of the function in which a program was written, for messages; empty if it was in none."""
    return _factories.get(program, "") if is_program(program) else ""


def _refuse_call(program: Any, *_: Any, **__: Any) -> NoReturn:
    name = program.attrs["global_symbol"] if program.attrs and "global_symbol" in program.attrs else "this"
    raise MisplacedError(
        f"{name} is a program, which is compiled before it is called", user_location(),
        hint=f"tilelang.compile({name})(...); a helper that kernels call is a @T.macro",
    )  # fmt: skip


def _pickled(node: Any, *_: Any) -> tuple[Any, ...]:
    return _unpickled, (rows_of(node), factory_of(node))


def _unpickled(rows: list[Row], factory: str) -> Any:
    node = node_of(rows)
    if factory:
        set_factory(node, factory)
    return node


def _buffer_map(program: Any) -> dict[Any, Any]:
    """What TVM's own programs have: parameter -> buffer, which are one object here."""
    return {param: param for param in program.params if ir.is_buffer_var(param)}


def _accepting_buffer_map(construct: Any) -> Any:
    """Programs that transform programs pass on what :func:`_buffer_map` gives; a parameter that it maps is the buffer itself."""

    def __init__(program: Any, params: Any, *args: Any, buffer_map: Any = None, **kwargs: Any) -> None:
        construct(program, [(buffer_map or {}).get(param, param) for param in params], *args, **kwargs)

    return __init__


ir.PrimFunc.__init__ = _accepting_buffer_map(ir.PrimFunc.__init__)
ir.PrimFunc.__call__ = _refuse_call
ir.PrimFunc.buffer_map = property(_buffer_map)
for _node in (ir.PrimFunc, ir.PrimExpr, ir.Stmt):
    _node.__reduce_ex__ = _pickled  # TVM's own crashes the process
    # Nodes are immutable, so a copy is the node itself.
    _node.__copy__ = lambda node: node
    _node.__deepcopy__ = lambda node, memo: node
