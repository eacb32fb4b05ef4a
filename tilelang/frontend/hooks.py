"""What rewritten user code calls while it is traced; each hook has Python's meaning for ordinary values.

See :mod:`tilelang.frontend.rewrite` for where each call comes from.
"""

from __future__ import annotations

import builtins
import operator
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tilelang.errors import CarriedValueError, CompileError, StaleValueError
from tilelang.frontend.access import assign_subscript, is_buffer, plain_index, subscript
from tilelang.frontend.bindings import bind, distributed, kept, settled
from tilelang.frontend.builder import Builder, Frame, current, sequence
from tilelang.frontend.loops import LoopSpec, span_of_range
from tilelang.frontend.values import LocalVar, Unusable, as_expr, as_operand, is_symbolic
from tilelang.ir import nodes as ir
from tilelang.ir.expr import simplify
from tilelang.ir.span import user_location
from tilelang.tileop.thread import INTRINSICS, intrinsic_call, intrinsic_name

_AUGMENTED: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "MatMult": operator.matmul,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


class Hooks:
    """The hooks; stateless, as the state is the active builder's."""

    # Names -----------------------------------------------------------------------------------------------------------

    def naming(self, name: str) -> str:
        """Announces the name that the value about to be computed will get."""
        current().pending_name = name
        return name

    def assign(self, scope: dict[str, Any], name: str, value: Any) -> Any:
        """``name = value``: what the Python name is bound to."""
        builder = current()
        builder.pending_name = None
        before = scope.get(name, _UNBOUND)
        bound = bind(builder, name, before, value)
        for frame in reversed(builder.frames):
            if frame.kind in ("loop", "branch"):
                frame.assigned.setdefault((id(scope), name), before)
                break
        scope[name] = bound
        return bound

    def unpack(self, names: tuple[str, ...], values: Any) -> tuple[Any, ...]:
        """The right-hand side of ``a, *b = values``, every item computed before any target changes.

        The single index of a kernel of one axis may be unpacked too: ``with T.Kernel(n) as (bx,)``.
        """
        builder = current()
        builder.pending_name = None
        items = distributed(names, [values] if isinstance(values, ir.Var) and not is_buffer(values) else list(values))
        return tuple(
            kept(builder, name.lstrip("*"), item) if isinstance(item, (list, tuple, dict)) else settled(builder, name, item)
            for name, item in zip(names, items)
        )

    def keep(self, value: Any) -> Any:
        """A value that Python will hold on to (an attribute, an item of a container): read now, not where it is used."""
        return kept(current(), "kept", value)

    def keep_in(self, holder: Any, value: Any) -> Any:
        """An argument of ``holder.append(value)`` and its like."""
        return self.keep(value) if isinstance(holder, (list, dict, set, deque)) else value

    def augment(self, scope: dict[str, Any], name: str, value: Any, op: str, operand: Any) -> Any:
        """``name op= operand``."""
        return self.assign(scope, name, self._augmented(value, op, operand))

    def augment_item(self, target: Any, key: Any, op: str, operand: Any) -> None:
        """``target[key] op= operand``."""
        self.store(target, key, self._augmented(self.load(target, key), op, operand))

    def _augmented(self, value: Any, op: str, operand: Any) -> Any:
        if op == "Div":
            return self.divide(value, operand)
        if op == "Pow":
            return self.power(value, operand)
        if op in ("FloorDiv", "Mod"):
            return (self.floor_divide if op == "FloorDiv" else self.modulo)(value, operand)
        return _AUGMENTED[op](as_operand(value), as_operand(operand))

    def declare(self, scope: dict[str, Any], name: str, value: Callable[[], Any], annotation: Any) -> Any:
        """``name: annotation``: the tensor that an eager program's argument is declared to be."""
        from tilelang.frontend.program import declare_argument

        try:
            present = value()
        except NameError:
            present = None
        scope[name] = declare_argument(current(), name, present, annotation)
        return scope[name]

    def is_stale(self, scope: dict[str, Any], name: str) -> bool:
        """Whether the block that just ended made the value of ``name`` depend on run-time control flow."""
        frame = current().closed
        key = (id(scope), name)
        if frame is None or key not in frame.assigned:
            return False
        return _is_stale(frame, frame.assigned[key], scope.get(name))

    def stale(self, scope: dict[str, Any], name: str) -> Any:
        """What a stale name is bound to."""
        frame = current().closed
        kind = "loop" if frame is not None and frame.kind == "loop" else "condition"
        scope[name] = Unusable(StaleValueError(name, kind))
        return scope[name]

    # Subscripts ------------------------------------------------------------------------------------------------------

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """``start:stop:step``."""
        return slice(start, stop, step)

    def load(self, target: Any, key: Any) -> Any:
        """``target[key]``."""
        if is_buffer(target):
            return subscript(target, key)
        if isinstance(target, LocalVar):
            return subscript(target.buffer, key)
        return target[plain_index(key)]

    def store(self, target: Any, key: Any, value: Any) -> None:
        """``target[key] = value``."""
        if isinstance(target, LocalVar):
            target = target.buffer
        if is_buffer(target):
            assign_subscript(target, key, value)
        else:
            target[plain_index(key)] = self.keep(value)

    # Control flow ----------------------------------------------------------------------------------------------------

    def serial_range(self, *bounds: Any) -> LoopSpec:
        """``range(...)`` as the iterable of a ``for`` statement: a serial loop of the kernel."""
        return LoopSpec("SERIAL", (span_of_range(*bounds),))

    def loop(self, scope: dict[str, Any], iterable: Any, names: tuple[str, ...], carried: tuple[str, ...]) -> Iterator[Any]:
        """The items of a ``for``: every item of a Python iterable, or once the variables of a run-time loop."""
        builder = current()
        if not isinstance(iterable, LoopSpec):
            yield from _static_loop(builder, iterable)
            return
        _refuse_carried(scope, carried)
        frame, value = iterable.open(builder, names)
        builder.loop_ends.append(None)
        yield value
        builder.loop_ends.pop()
        builder.close(frame)

    def while_(self, scope: dict[str, Any], test: Callable[[], Any], carried: tuple[str, ...]) -> Iterator[None]:
        """The passes of a ``while``: as long as a Python condition holds, or once for a run-time one."""
        builder = current()
        condition = as_operand(test())
        if not is_symbolic(condition):
            yield from _static_loop(builder, _while_true(condition, test))
            return
        _refuse_carried(scope, carried)
        span = builder.span()
        frame = builder.open("loop", lambda body: ir.While(_boolean(condition), body, span))
        builder.loop_ends.append(None)
        yield None
        builder.loop_ends.pop()
        builder.close(frame)

    def forever(self, scope: dict[str, Any], carried: tuple[str, ...]) -> Iterator[None]:
        """The one traced pass of ``while True``, a run-time loop that a ``break`` ends."""
        yield from self.while_(scope, lambda: ir.EQ(ir.IntImm("int32", 0), ir.IntImm("int32", 0)), carried)

    def branch(self, test: Any) -> Branch:
        """An ``if`` statement."""
        test = as_operand(test)
        return DynamicBranch(current(), _boolean(test)) if is_symbolic(test) else Branch(bool(_constant(test)))

    def break_(self) -> bool:
        """``break``; true where Python itself must leave the loop."""
        return self._jump("break", ir.Break)

    def continue_(self) -> bool:
        """``continue``; true where Python itself must go on."""
        return self._jump("continue", ir.Continue)

    def _jump(self, word: str, make: Callable[[Any], Any]) -> bool:
        builder = current()
        if not builder.loop_ends:
            raise CompileError(f"{word} outside of a loop")
        depth = builder.loop_ends[-1]
        if depth is None:
            builder.emit(make(builder.span()))
            return False
        if len(builder.frames) > depth:
            raise CompileError(
                f"{word} of a compile-time loop depends on a run-time condition",
                hint="use a run-time loop (T.serial, range), or make the condition a Python value",
            )
        return True

    def returns(self, value: Any, explicit: bool) -> bool:
        """``return``; true where Python itself must return, false where only the thread ends."""
        builder = current()
        if builder.macro_depths:
            if len(builder.frames) > builder.macro_depths[-1]:
                raise CompileError("return inside a run-time loop or condition of a macro", hint="assign to a T.alloc_var")
            return True
        if builder.kernel is not None:
            if value is not None:
                raise CompileError("a kernel cannot return a value from inside `with T.Kernel(...)`")
            builder.emit(ir.Evaluate(intrinsic_call("thread_return"), builder.span()))
            return False
        if explicit:
            builder.set_outputs(value)
        return True

    def assert_(self, test: Any, message: Callable[[], Any] | None) -> None:
        """``assert``: checked now for Python values, by the kernel for run-time ones."""
        from tilelang.language.debug import device_assert

        test = as_operand(test)
        test = simplify(test) if is_symbolic(test) else test
        text = "" if message is None else str(message())
        if is_symbolic(test):
            device_assert(test, text)
        elif not _constant(test):
            raise AssertionError(text)

    def statement(self, value: Any) -> None:
        """An expression statement: calls are kept for their side effects."""
        if isinstance(value, ir.Call):
            current().evaluate(value)

    # Expressions -----------------------------------------------------------------------------------------------------

    def and_(self, *terms: Callable[[], Any]) -> Any:
        """``a and b``; run-time operands combine to a boolean expression, without evaluation order."""
        return _logical(terms, stop=False, combine=ir.And)

    def or_(self, *terms: Callable[[], Any]) -> Any:
        """``a or b``."""
        return _logical(terms, stop=True, combine=ir.Or)

    def not_(self, value: Any) -> Any:
        """``not value``."""
        value = as_operand(value)
        return ir.Not(_boolean(value)) if is_symbolic(value) else not _constant(value)

    def compare(self, operators: tuple[str, ...], *operands: Any) -> Any:
        """``a < b < c``."""
        values = [as_operand(value) for value in operands]
        pairs = list(zip(operators, values, values[1:]))
        return self.and_(*(lambda op=op, a=a, b=b: self._compared(op, a, b) for op, a, b in pairs))

    def _compared(self, op: str, left: Any, right: Any) -> Any:
        if op not in ("In", "NotIn"):
            return _COMPARISONS[op](left, right)
        if is_symbolic(left) or (isinstance(right, (list, tuple)) and any(map(is_symbolic, right))):
            found = self.or_(*(lambda item=item: as_operand(left) == as_operand(item) for item in right))
        else:
            found = _constant(left) in right
        return self.not_(found) if op == "NotIn" else found

    def choose(self, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """``then if test else otherwise``."""
        from tilelang.language.math import if_then_else

        test = as_operand(test)
        if not is_symbolic(test):
            return then() if _constant(test) else otherwise()
        return if_then_else(test, _without_effects(then), _without_effects(otherwise))

    def divide(self, left: Any, right: Any) -> Any:
        """``left / right``; between run-time integers it is ambiguous and refused."""
        left, right = as_operand(left), as_operand(right)
        if is_symbolic(left) or is_symbolic(right):
            kinds = [str(value.ty) if hasattr(value, "ty") else type(value).__name__ for value in (left, right)]
            if all(kind.startswith(("int", "uint")) for kind in kinds):
                raise CompileError("/ between two run-time integers", hint="use //, or cast one side: T.float32(x) / y")
        return _constant(left) / _constant(right)

    def floor_divide(self, left: Any, right: Any) -> Any:
        """``left // right``; a negative constant divisor is turned around, because TVM's simplifier fails on it."""
        left, right = _division(as_operand(left), as_operand(right))
        return (-left) // -_constant(right) if _is_negative_divisor(left, right) else left // right

    def modulo(self, left: Any, right: Any) -> Any:
        """``left % right``; see :meth:`floor_divide`."""
        left, right = _division(as_operand(left), as_operand(right))
        return -((-left) % -_constant(right)) if _is_negative_divisor(left, right) else left % right

    def power(self, left: Any, right: Any) -> Any:
        """``left ** right``."""
        from tilelang.language.math import pow as power

        left, right = as_operand(left), as_operand(right)
        return power(left, right) if is_symbolic(left) or is_symbolic(right) else _constant(left) ** _constant(right)

    def builtin(self, name: str, function: Any) -> Any:
        """A Python builtin, extended to run-time values; a user's own function of that name is left alone."""
        from tilelang.language.builtins import EXTENDED

        return EXTENDED[name] if function is getattr(builtins, name) else function


HOOKS = Hooks()


class _Missing:
    def __repr__(self) -> str:
        return "unbound"


_UNBOUND = _Missing()


class Branch:
    """A compile-time ``if``: one arm runs."""

    def __init__(self, taken: bool):
        self.taken = taken

    def enter_then(self) -> bool:
        """Whether to trace the first arm."""
        return self.taken

    def enter_else(self) -> bool:
        """Whether to trace the second arm."""
        return not self.taken

    def close(self) -> None:
        """Ends an arm."""

    def finish(self) -> None:
        """Ends the statement."""
        current().closed = None


class DynamicBranch(Branch):
    """A run-time ``if``: both arms are traced."""

    def __init__(self, builder: Builder, condition: Any):
        super().__init__(True)
        self.builder = builder
        self.condition = condition
        self.span = builder.span()
        self.arms: list[Any] = []
        self.frame: Frame | None = None
        self.assigned: dict[Any, Any] = {}

    def _enter(self) -> bool:
        self.frame = self.builder.open("branch", lambda body: body)
        return True

    enter_then = enter_else = _enter

    def close(self) -> None:
        """Ends an arm: its statements are kept for the ``if``."""
        if self.builder.frames[-1] is not self.frame:
            raise CompileError("scopes are closed in the wrong order", user_location())
        self.builder.frames.pop()
        self.arms.append(sequence(self.frame.stmts))
        for key, before in self.frame.assigned.items():
            self.assigned.setdefault(key, before)

    def finish(self) -> None:
        """Emits the ``if``."""
        then, *rest = self.arms
        self.builder.emit(ir.IfThenElse(self.condition, then, rest[0] if rest else None, self.span))
        frame = Frame("branch", lambda body: body, assigned=self.assigned)
        self.builder.note_assigned(self.assigned)
        self.builder.closed = frame


def _is_stale(frame: Frame, before: Any, value: Any) -> bool:
    if isinstance(value, (LocalVar, Unusable)) or is_buffer(value) or value is before:
        return False
    if isinstance(value, ir.PrimExpr):
        return True
    unchanged = type(value) is type(before) and value == before
    return not unchanged and (frame.kind == "branch" or before is not _UNBOUND)


def _refuse_carried(scope: dict[str, Any], carried: tuple[str, ...]) -> None:
    for name in carried:
        value = scope.get(name, _UNBOUND)
        if isinstance(value, (int, float)) or (isinstance(value, ir.PrimExpr) and not is_buffer(value)):
            raise CarriedValueError(name)


def _static_loop(builder: Builder, items: Any) -> Iterator[Any]:
    depth = len(builder.frames)
    builder.loop_ends.append(depth)
    try:
        yield from items
    finally:
        builder.loop_ends.pop()
        builder.closed = None


def _while_true(condition: Any, test: Callable[[], Any]) -> Iterator[None]:
    while _constant(condition):
        yield None
        condition = as_operand(test())
        if is_symbolic(condition):
            raise CompileError("the condition of a compile-time while loop became a run-time value")


def _constant(value: Any) -> Any:
    """The Python value of a constant expression."""
    if isinstance(value, ir.IntImm):
        return bool(value.value) if str(value.ty) == "bool" else int(value.value)
    return float(value.value) if isinstance(value, ir.FloatImm) else value


def _boolean(value: Any) -> Any:
    expr = as_expr(value)
    return (
        expr
        if str(expr.ty) == "bool"
        else expr != ir.IntImm(expr.ty, 0)
        if "int" in str(expr.ty)
        else ir.NE(expr, ir.FloatImm(str(expr.ty), 0.0))
    )


def _division(left: Any, right: Any) -> tuple[Any, Any]:
    """The operands of ``//`` and ``%``; a run-time float and the constant zero as the divisor are refused."""
    if any(is_symbolic(value) and "float" in str(value.ty) for value in (left, right)):
        raise CompileError("// and % of floating-point values", hint="use T.floor(a / b), T.fmod(a, b)")
    if is_symbolic(left) and not is_symbolic(right) and _constant(right) == 0:
        raise CompileError("division by zero", hint="the divisor of // and % is the constant 0 here")
    return left, right


def _is_negative_divisor(left: Any, right: Any) -> bool:
    """Whether a run-time signed integer is divided by a negative constant."""
    divisor = _constant(right) if not is_symbolic(right) else None
    return isinstance(divisor, int) and divisor < 0 and is_symbolic(left) and str(left.ty).startswith("int")


def _without_effects(part: Callable[[], Any]) -> Any:
    """The value of an operand that Python might skip; a call in it that changes something would happen all the same."""
    stmts = current().frames[-1].stmts
    count = len(stmts)
    value = part()
    for stmt in stmts[count:]:
        called = intrinsic_name(stmt.value) if isinstance(stmt, (ir.Bind, ir.Evaluate)) else None
        if not isinstance(stmt, ir.Bind) or (called is not None and not INTRINSICS[called].pure):
            raise CompileError("a call with side effects in a conditional expression", hint="use an if statement")
    return value


def _logical(terms: tuple[Callable[[], Any], ...], stop: bool, combine: Callable[[Any, Any], Any]) -> Any:
    result: Any = None
    value: Any = None
    for term in terms:
        value = as_operand(term() if result is None else _without_effects(term))
        if not is_symbolic(value):
            value = _constant(value)
            if bool(value) is stop:
                return value
            continue
        part = _boolean(value)
        result = part if result is None else combine(result, part)
    return value if result is None else result
