"""The functions that rewritten user code calls while it is traced; for ordinary values each has Python's meaning.

The docstring of :mod:`tilelang.frontend.rewrite` shows which piece of Python becomes which call. ``scope`` is always the
dictionary of local names that rewritten code keeps, since a hook has no access to the local variables of its caller.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MethodDescriptorType, NoneType, WrapperDescriptorType
from typing import Any

from tilelang.errors import (
    ARRAY_OF_THE_KERNEL,
    CarriedValueError,
    MisplacedError,
    OperandError,
    RunTimeValueError,
    ShadowedNameWarning,
)
from tilelang.frontend import operators
from tilelang.frontend.access import assign_subscript, compile_time_index, is_buffer, names_memory, subscript
from tilelang.frontend.attributes import is_missing
from tilelang.frontend.bindings import match_targets
from tilelang.frontend.branches import Branch, DynamicBranch
from tilelang.frontend.builder import Builder, current, described, read_now, sequence
from tilelang.frontend.containers import State, attribute_of, is_same, item_of
from tilelang.frontend.copies import with_values
from tilelang.frontend.frames import Stored
from tilelang.frontend.lanes import lanes_of
from tilelang.frontend.liveness import Reads
from tilelang.frontend.loops import LoopSpec, range_bounds
from tilelang.frontend.name_hooks import NameHooks, unpacked_items
from tilelang.frontend.names import UNBOUND, Names
from tilelang.frontend.operators import AUGMENTED, boolean, constant
from tilelang.frontend.order import Mark, in_order
from tilelang.frontend.tables import is_table, look_up
from tilelang.frontend.texts import Text
from tilelang.frontend.tiles import Slice
from tilelang.frontend.values import BufferLike, LocalVar, ReadVar, Unusable, as_operand, is_symbolic, last_value
from tilelang.frontend.vectors import VectorArray
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, simplify
from tilelang.ir.span import warn_at
from tilelang.provided import provided
from tilelang.tileop.thread import intrinsic_call


class Hooks(NameHooks):
    """The hooks; stateless, as the state is the active builder's."""

    # Subscripts ------------------------------------------------------------------------------------------------------

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """``start:stop:step``.

        Args:
            start, stop, step: numbers, expressions, or None where the user left one out.
        """
        return slice(start, stop, step)

    def load(self, target: Any, key: Any) -> Any:
        """``target[key]``."""
        if is_buffer(target) or isinstance(target, Slice):
            return subscript(target, key)
        if isinstance(target, ReadVar) and lanes_of(target.load) > 1:
            target = target.load
        if isinstance(target, LocalVar):
            return subscript(target.buffer, key)
        if isinstance(target, ir.PrimExpr) and lanes_of(target) > 1:
            return provided("extract_lane")(target, key)
        if is_table(target) and any(map(_is_run_time, key if isinstance(key, tuple) else (key,))):
            return look_up(target, key)
        item = target[_python_key(target, key, "__getitem__")]
        return with_values(item) if isinstance(key, slice) else self.item(item)

    def store(self, value: Any, target: Any, key: Any) -> None:
        """``target[key] = value``.

        Args:
            value: the right-hand side; a container holds it as it is now, also when the memory that it reads changes later.
            target: a buffer, a slice, or any Python container.
            key: the subscript.

        Raises:
            OperandError: ``target`` is a scalar.
        """
        if isinstance(target, LocalVar):
            target = target.buffer
        if is_buffer(target) or isinstance(target, Slice):
            assign_subscript(target, key, value)
        elif isinstance(target, VectorArray):
            target[key] = value
        elif is_symbolic(target):
            raise OperandError("a scalar of a kernel has no elements", hint=ARRAY_OF_THE_KERNEL)
        else:
            key = _python_key(target, key, "__setitem__")
            current().stored.append(Stored(target))
            target[key] = self.held(target, item_of(target, key), value)

    def augment_item(self, target: Any, key: Any, op: str, mark: Mark, operand: Any) -> None:
        """``target[key] op= operand``.

        Args:
            target: a buffer, a slice, or any Python container.
            key: the subscript, evaluated once.
            op: class name of the operator in the syntax tree, such as ``"Add"``.
            mark: before the operand was computed.
            operand: the right-hand side.
        """
        key, before = mark.keep((key, self.load(target, key)))
        self.store(AUGMENTED[op](before, operand), target, key)

    def store_attribute(self, value: Any, target: Any, name: str) -> None:
        """``target.name = value``.

        Args:
            value: the right-hand side.
            target: any object.
            name: of the attribute.
        """
        before = attribute_of(target, name)
        current().stored.append(Stored(target, name, is_missing(target, name), before))
        setattr(target, name, self.held(target, before, value))

    def augment_attribute(self, target: Any, name: str, op: str, mark: Mark, operand: Any) -> None:
        """``target.name op= operand``.

        Args:
            target: any object.
            name: of the attribute.
            op: class name of the operator in the syntax tree, such as ``"Add"``.
            mark: before the operand was computed.
            operand: the right-hand side.
        """
        self.store_attribute(AUGMENTED[op](mark.keep(getattr(target, name)), operand), target, name)

    def delete_item(self, target: Any, key: Any) -> None:
        """``del target[key]``."""
        key = _python_key(target, key, "__delitem__")
        current().stored.append(Stored(target))
        del target[key]

    def delete_attribute(self, target: Any, name: str) -> None:
        """``del target.name``."""
        current().stored.append(Stored(target, name, before=attribute_of(target, name)))
        delattr(target, name)

    # Control flow ----------------------------------------------------------------------------------------------------

    def serial_range(self, *bounds: Any) -> LoopSpec:
        """``range(...)`` as the iterable of a ``for`` statement: a serial loop of the kernel."""
        return LoopSpec("SERIAL", (range_bounds(*bounds),))

    def loop(self, scope: Names, iterable: Any, names: tuple[str, ...], carried: Mapping[str, int]) -> Iterator[Any]:
        """The items of a ``for``: every item of a Python iterable, or once the variables of a run-time loop.

        Args:
            scope: the local names of the user's function.
            iterable: a Python iterable, or a loop of the language.
            names: of the targets, as names for the loop's variables.
            carried: names that an iteration may read before it assigns them; what is known of these reads (``liveness.Reads``).

        Raises:
            CarriedValueError: a run-time loop carries a Python value from one iteration to the next.
            ChangedContainerError: it changes a Python container, which it does only once.
        """
        builder = current()
        if iterable is not None and iterable is builder.axis:
            # T.thread_binding: every thread makes one pass.
            with builder.axis_scope() as index:
                yield index
            return
        if not isinstance(iterable, LoopSpec):
            yield from _compile_time_loop(builder, [*map(self.item, iterable)] if type(iterable) is tuple else iterable)
            return
        before, state = _values_held(scope, carried), State(scope.reached())
        frame, value = iterable.open(builder, names)
        if len(names) > 1:
            match_targets(names, unpacked_items(value))
        with builder.in_loop(iterable.kind):
            yield value
            _refuse_carried(scope, before, carried)
            state.refuse_changed("loop")
        builder.close(frame)

    def while_(self, scope: Names, test: Callable[[], Any], carried: Mapping[str, int]) -> Iterator[None]:
        """The passes of a ``while``: as long as a Python condition holds, or once for a run-time one.

        Args:
            scope: the local names of the user's function.
            test: evaluates the condition.
            carried: names that an iteration may read before it assigns them; what is known of these reads (``liveness.Reads``).

        Raises:
            CarriedValueError: a run-time loop carries a Python value from one iteration to the next.
            ChangedContainerError: it changes a Python container, which it does only once.
        """
        builder = current()
        # What computes a run-time condition belongs at the start of each pass, so it is not emitted in front of the loop.
        condition, computed = builder.repeated(lambda: as_operand(test()))
        if not is_symbolic(condition):
            for stmt in computed.stmts:
                builder.emit(stmt)
            builder.leave(computed)
            yield from _compile_time_loop(builder, _compile_time_passes(condition, test))
            return
        before, state = _values_held(scope, carried), State(scope.reached())
        span = builder.span()
        frame = builder.open("loop", lambda body: _while_statement(boolean(condition), computed.stmts, body, span), repeats=True)
        frame.assigned.update(computed.assigned)
        with builder.in_loop("WHILE"):
            yield None
            _refuse_carried(scope, before, carried)
            state.refuse_changed("loop")
        builder.close(frame)

    def forever(self, scope: Names, carried: Mapping[str, int]) -> Iterator[None]:
        """The one traced pass of ``while True``, a run-time loop that a ``break`` ends."""
        yield from self.while_(scope, _true, carried)

    def after_compile_time_loop(self) -> None:
        """The ``else`` of a loop that has a ``break``; whether a run-time loop was left is not known while it is traced.

        Raises:
            RunTimeValueError: the loop is one of the kernel.
        """
        frame = current().closed
        if frame is not None and frame.kind == "loop":
            raise RunTimeValueError("else of a run-time loop that may be left by break", hint="note it in a T.alloc_var")

    def branch(self, scope: Names, test: Any) -> Branch:
        """An ``if`` statement."""
        test = as_operand(test)
        if not is_symbolic(test):
            return Branch(bool(constant(test)))
        return DynamicBranch(current(), boolean(test), State(scope.reached()), scope)

    def break_(self) -> bool:
        """``break``; true where Python itself must leave the loop."""
        return self._jump("break", lambda builder: builder.leave_loop())

    def continue_(self) -> bool:
        """``continue``; true where Python itself must go on."""
        return self._jump("continue", lambda builder: builder.emit(ir.Continue(builder.span())))

    def _jump(self, word: str, emit: Callable[[Any], None]) -> bool:
        """A jump; true where Python itself must jump.

        Args:
            word: the statement, for the message of an error.
            emit: appends the jump of a run-time loop to the program.
        """
        builder = current()
        if not builder.loops:
            raise MisplacedError(f"{word} outside of a loop")
        loop = builder.loops[-1]
        if loop.kind is not None:
            emit(builder)
            return False
        # A scope that was opened since the loop began is a run-time condition, which decides about the jump.
        if len(builder.frames) > loop.depth:
            raise RunTimeValueError(
                f"{word} of a compile-time loop depends on a run-time condition",
                hint="use a run-time loop (T.serial, range), or make the condition a Python value",
            )
        return True

    def returns(self, value: Any, explicit: bool) -> bool:
        """``return``; true where Python itself must return, false where only the thread ends."""
        builder = current()
        if builder.macro_depths:
            if len(builder.frames) > builder.macro_depths[-1]:
                raise MisplacedError("return inside a run-time loop or condition of a macro", hint="assign to a T.alloc_var")
            return True
        if builder.kernel is not None:
            if value is not None:
                raise MisplacedError(
                    "a kernel cannot return a value from inside `with T.Kernel(...)`",
                    hint="store to a tensor argument; an eager program returns tensors of T.empty, after the `with`",
                )
            builder.emit(ir.Evaluate(intrinsic_call("thread_return"), builder.span()))
            return False
        if explicit:
            builder.set_outputs(value)
        return True

    def assert_(self, test: Any, message: Callable[[], Any] | None) -> None:
        """``assert``: checked now for Python values, by the kernel for run-time ones, by every call before a kernel."""
        test = as_operand(test)
        test = simplify(read_now(test)) if is_symbolic(test) else test
        text = "" if message is None else str(message())
        if is_symbolic(test):
            provided("assertion")(test, text)
        elif not constant(test):
            raise AssertionError(text)

    def statement(self, value: Any) -> None:
        """An expression statement: calls are kept for their side effects."""
        if isinstance(value, ir.Call):
            current().evaluate(value)
        elif isinstance(value, LoopSpec):
            raise MisplacedError("a loop that no `for` statement goes through", hint="for i in T.serial(n):")
        elif getattr(value, "opens_kernel", False):
            raise MisplacedError("T.Kernel without `with` opens no kernel", hint="with T.Kernel(...) as bx:")

    def context(self, value: Any) -> Any:
        """What a ``with`` statement enters."""
        if hasattr(type(value), "__enter__") and not isinstance(value, LoopSpec):
            return value
        if value is not None and value is current().axis:
            return current().axis_scope()
        raise OperandError(f"`with` takes a context manager, not {described(value)}")

    # Expressions -----------------------------------------------------------------------------------------------------

    mark = staticmethod(Mark.here)
    in_order = staticmethod(in_order)
    and_ = staticmethod(operators.and_)
    or_ = staticmethod(operators.or_)
    value_of_and_ = staticmethod(operators.value_of_and)
    value_of_or_ = staticmethod(operators.value_of_or)
    not_ = staticmethod(operators.not_)
    compare = staticmethod(operators.compare)
    chain = staticmethod(operators.chain)
    choose = staticmethod(operators.choose)
    divide = staticmethod(operators.divide)
    add = staticmethod(operators.BINARY["Add"])
    subtract = staticmethod(operators.subtract)
    floor_divide = staticmethod(operators.floor_divide)
    modulo = staticmethod(operators.modulo)
    power = staticmethod(operators.power)

    def computed(self, value: Any) -> Callable[[], Any]:
        """The first operand of ``and`` and ``or`` where a ``:=`` in it binds a name: Python computes it in any case."""
        return lambda: value

    def decided(self, value: Any) -> Any:
        """An operand of ``and`` or ``or``, or a condition, that decides whether Python computes an operand with a ``:=``.

        Raises:
            RunTimeValueError: the kernel decides it, and would not know what the name holds.
        """
        value = as_operand(value)
        if is_symbolic(value):
            raise RunTimeValueError(
                "`:=` after a run-time operand of `and` or `or`, or a run-time condition",
                hint="assign the name in a statement before",
            )
        return value

    def binary(self, op: str, *operands: Any) -> Any:
        """``left op right``; the name of the operator's class in Python's syntax tree, and the operands with a mark between."""
        left, right = in_order(*operands)
        return operators.BINARY[op](left, right)

    def formatted(self, value: Any, conversion: int, spec: str) -> Any:
        """A value in an f-string: its text, or itself where the kernel computes it.

        Args:
            value: of the replacement field.
            conversion: the code of ``s``, ``r`` or ``a`` after ``!``; -1 without one.
            spec: what follows the colon.
        """
        if is_symbolic(value) or is_buffer(value) or isinstance(value, Text):
            return value
        return format(_CONVERSIONS[conversion](value), spec)

    def text(self, *parts: Any) -> str:
        """An f-string."""
        return "".join(parts) if all(type(part) is str for part in parts) else Text.of(parts)

    def builtin(self, name: str, function: Any) -> Any:
        """A Python builtin, extended to run-time values; a user's own function of that name is left alone."""
        return provided("extended_builtin")(name) if function is getattr(builtins, name) else function


_CONVERSIONS: Mapping[int, Callable[[Any], Any]] = {-1: lambda value: value, ord("s"): str, ord("r"): repr, ord("a"): ascii}

HOOKS = Hooks()


def _python_key(target: Any, key: Any, method: str) -> Any:
    """``key`` as an object that is not the language's takes it: a tile is a key of a dict (``layouts[tile] = layout``), a class
    of the program's own does with an expression what it likes, and elsewhere an expression must be a number."""
    own = getattr(type(target), method, None)
    takes_any = isinstance(target, BufferLike) or not isinstance(own, (MethodDescriptorType, WrapperDescriptorType, NoneType))
    is_tile_of_dict = is_buffer(key) and isinstance(target, Mapping)
    if takes_any or is_tile_of_dict:
        return key
    if isinstance(key, slice):
        return slice(*map(compile_time_index, (key.start, key.stop, key.step)))
    return compile_time_index(key)


def _is_run_time(index: Any) -> bool:
    """Whether an index is no number even when it is simplified."""
    return is_symbolic(index) and not isinstance(as_int(as_operand(index)), int)


def _values_held(scope: Names, names: Iterable[str]) -> dict[str, Any]:
    """Those of ``names`` that hold something, with what they hold; a placeholder an iteration cannot use."""
    held = {name: scope.held(name) for name in names}
    return {name: value for name, value in held.items() if value is not UNBOUND and not isinstance(value, Unusable)}


def _refuse_carried(scope: Names, before: Mapping[str, Any], reads: Mapping[str, int]) -> None:
    """Refuses a loop whose traced pass leaves another value in a name than it found: the next pass would start from that one.

    Branches that are decided at compile time count as they were taken: what they do not assign is not carried. Nor is a scalar in
    the place of memory of which each pass reads elements: it has none, so the memory is meant. What an arm of a branch assigns
    ends with the arm, so that arms before it read the value from before the loop in every pass; a warning says so.

    Args:
        scope: the local names.
        before: what the pass found in some of them.
        reads: what is known of the reads of each, see :class:`~tilelang.frontend.liveness.Reads`.
    """
    for name, value in before.items():
        after = scope.held(name)
        if is_same(value, after) or (reads[name] & Reads.ELEMENTS and names_memory(value) and _is_scalar(after)):
            continue
        if not (reads[name] & Reads.EARLIER_ARMS and isinstance(after, Unusable)):
            raise CarriedValueError(name, is_memory=names_memory(value))
        warn_at(
            f"{name!r} is assigned in one branch of a run-time loop and read in another: there it is in every iteration the value"
            f" from before the loop; {name} = T.alloc_var(dtype, init=value) would keep what the branch assigns",
            ShadowedNameWarning,
            current().span(),
        )


def _is_scalar(value: Any) -> bool:
    """Whether ``value`` is a number or an expression, also where a name holds it on one path only."""
    value = last_value(value) if isinstance(value, Unusable) else value
    return isinstance(value, (int, float)) or isinstance(value, ir.PrimExpr) and not is_buffer(value) and lanes_of(value) == 1


def _compile_time_loop(builder: Builder, items: Any) -> Iterator[Any]:
    """The items of a Python iterable; a ``break`` in the loop's body closes this generator."""
    builder.advanced.append(items)
    with builder.in_loop(None):
        try:
            # A `break` must not close an iterator of the author's: a later loop goes on with it.
            yield from map(HOOKS.item, items)
        finally:
            # What the body's last scope assigned is no news to the statement after the loop: Python's own loop carried the
            # values.
            builder.closed = None


def _true() -> Any:
    """A condition that always holds, as a run-time value: the constant ``True`` would make the loop one of Python's."""
    return ir.EQ(ir.IntImm("int32", 0), ir.IntImm("int32", 0))


def _while_statement(condition: Any, effects: list[Any], body: Any, span: Any) -> Any:
    """A run-time ``while`` loop.

    Args:
        condition: checked before each pass.
        effects: the statements that compute the condition (such as an atomic load), which each pass performs again.
        body: what a pass does.
        span: of the author's statement.
    """
    if not effects:
        return ir.While(condition, body, span)
    leave = ir.IfThenElse(ir.Not(condition), ir.Break(span), None, span)
    return ir.While(_true(), sequence([*effects, leave, body]), span)


def _compile_time_passes(condition: Any, test: Callable[[], Any]) -> Iterator[None]:
    """One item for each pass of a compile-time ``while``; ``condition`` is the first result of ``test``."""
    while constant(condition):
        yield None
        condition = as_operand(test())
        if is_symbolic(condition):
            raise RunTimeValueError("the condition of a compile-time while loop became a run-time value")
