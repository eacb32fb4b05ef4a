"""The hooks of statements that bind names, see :mod:`tilelang.frontend.hooks`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tilelang.errors import HELD_BY_PYTHON, StaleValueError
from tilelang.frontend.access import compile_time_index, is_buffer
from tilelang.frontend.bindings import bind, holds_items, match_targets, snapshot, snapshot_items
from tilelang.frontend.branches import is_stale
from tilelang.frontend.builder import current
from tilelang.frontend.containers import CONTAINERS, refuse_outside_change, with_known_keys
from tilelang.frontend.copies import read, with_values
from tilelang.frontend.declare import declare_argument
from tilelang.frontend.frames import Stored
from tilelang.frontend.hidden_state import DRAWING, draws
from tilelang.frontend.names import UNBOUND, Names, Outside
from tilelang.frontend.operators import AUGMENTED
from tilelang.frontend.shared_variables import part
from tilelang.frontend.texts import METHODS_OF_TEXTS
from tilelang.frontend.values import LocalVar, Unusable, as_operand, moment
from tilelang.ir import nodes as ir

_STORING_METHODS = frozenset("append appendleft extend extendleft insert add setdefault update".split())
"""Methods that store their arguments in a Python container."""

_JOINING_METHODS = frozenset("extend extendleft update".split())
"""Those that store the items of their arguments."""

_LOOKING_METHODS = frozenset("get pop setdefault".split())
"""Methods that look for their first argument among the keys of a dictionary."""

_CHANGING_METHODS = frozenset("clear pop popitem popleft remove reverse rotate setdefault sort".split()) | _STORING_METHODS
"""Methods that change their container."""

METHODS = _CHANGING_METHODS | _LOOKING_METHODS | {"copy"} | METHODS_OF_TEXTS.keys() | DRAWING
"""The methods of containers and texts that differ from Python's, and functions of modules that leave a trace."""


class NameHooks:
    """Hooks of assignments, and of what else binds names; ``scope`` holds the local names of the author's function."""

    def names(self, local: dict[str, Any], outside: Outside) -> Names:
        """The names of a function that begins to run."""
        names = Names(local, outside)
        current().scopes.append(names)
        return names

    def naming(self, name: str) -> str:
        """Records the name that the next value is assigned to, so that a buffer allocated for it gets this name."""
        current().pending_name = name
        return name

    def named(self, name: str, value: Any) -> Any:
        """An item of ``a, b = x, y`` after :meth:`naming`; the name is used up, whether or not the value took it."""
        current().pending_name = None
        return value

    def assign(self, scope: Names, name: str, value: Any) -> Any:
        """``name = value``: the value that the Python name is bound to.

        Args:
            scope: the local names of the user's function.
            name: the target.
            value: the right-hand side.
        """
        builder = current()
        builder.pending_name = None
        before = scope.held(name)
        if isinstance(before, LocalVar) and not before.fresh:
            part(builder, before)
        bound = bind(builder, name, before, value)
        if builder.macro_depths and name not in scope:
            refuse_outside_change(builder, scope, name, bound)
        return self.bound(scope, name, bound)

    def bound(self, scope: Names, name: str, value: Any) -> Any:
        """Records that Python has bound ``name`` to ``value``, by an assignment, ``with``, ``match``, ``def``, ``import``.

        Args:
            scope: the local names of the user's function.
            name: what is bound.
            value: what Python has bound it to.
        """
        # Only the innermost loop or branch notes the old value; closing it passes the note on to the scope around it.
        for frame in reversed(current().frames):
            if frame.kind in ("loop", "branch", "detached"):
                # The first assignment in a scope finds the value from before it. A macro has a dictionary of names of its own,
                # hence the `id`.
                frame.assigned.setdefault((id(scope), name), scope.held(name))
                break
        scope[name] = value
        return value

    def loop_target(self, scope: Names, name: str, value: Any) -> Any:
        """The same for a target of a ``for``.

        Args:
            scope: the local names of the user's function.
            name: what is bound.
            value: what Python has bound it to.
        """
        loops = current().loops
        if loops and loops[-1].kind is None:
            self.bound(scope, name, value)
            if isinstance(value, LocalVar):
                # The name reads the variable, but is none: an assignment to it does not store.
                value = self.item(value)
                scope[name] = value.expr()
            return value
        # The variable of a run-time loop: a use of it after the loop is an error, whatever the name held before.
        scope[name] = value
        return value

    def item(self, value: Any) -> Any:
        """An argument, or what a container or an object holds: of a variable, with what it holds here.

        Raises:
            StaleValueError: a name whose value depends on run-time control flow.
        """
        return read(self.usable(value))

    def usable(self, value: Any) -> Any:
        """``value``, of which Python asks what it is.

        Raises:
            StaleValueError: a name whose value depends on run-time control flow.
        """
        if isinstance(value, Unusable):
            as_operand(value)
        return value

    moment = staticmethod(moment)

    def result(self, begun: int, value: Any) -> Any:
        """What a call gives: a variable that it has made itself, or what another one holds here.

        Args:
            begun: the moment before the call.
            value: the result.
        """
        is_made = isinstance(value, LocalVar) and value.made > begun
        return value if is_made else self.item(value)

    def captured(self, scope: Names, name: str, value: Any) -> Any:
        """The same for a name that a pattern of ``match`` binds to a part of what is matched.

        Args:
            scope: the local names of the user's function.
            name: what is bound.
            value: what Python has bound it to.
        """
        return self.bound(scope, name, snapshot_items(current(), name, value))

    def unpack(self, begun: int, names: tuple[Any, ...], values: Any) -> tuple[Any, ...]:
        """The right-hand side of ``a, *b = values``; every item is computed before a target changes, as ``a, b = b, a`` needs.

        The single index of a kernel of one axis may be unpacked too: ``with T.Kernel(n) as (bx,)``.

        Args:
            begun: the moment before the values were computed.
            names: of the targets, in a tuple those of ``(a, b), c = values``.
            values: the right-hand side.

        Returns:
            The values of all targets in order, also of those in tuples.
        """
        current().pending_name = None
        return tuple(self._unpacked(begun, names, values))

    def _unpacked(self, begun: int, names: tuple[Any, ...], values: Any) -> Iterator[Any]:
        builder = current()
        titles = tuple(name if isinstance(name, str) else "item" for name in names)
        for name, item in zip(names, match_targets(titles, unpacked_items(values))):
            if isinstance(name, tuple):
                yield from self._unpacked(begun, name, item)
            elif holds_items(item):
                yield snapshot_items(builder, name.lstrip("*"), item)
            else:
                yield snapshot(builder, name, self.result(begun, item))

    def keep(self, value: Any) -> Any:
        """A value that is stored in an attribute or a container: memory is read now, not where the value is used."""
        return snapshot_items(current(), HELD_BY_PYTHON, value)

    def held(self, holder: Any, before: Any, value: Any) -> Any:
        """What an attribute or an item of a container holds after an assignment; to a variable there the value is stored.

        Args:
            holder: the object or container.
            before: what it held; a variable that has a name is the name's.
            value: the right-hand side.
        """
        if not isinstance(before, LocalVar) or not before.fresh:
            return self.keep(value)
        part(current(), before, holder)
        return bind(current(), HELD_BY_PYTHON, before, value)

    def method(self, holder: Any, name: str) -> Any:
        """``holder.name`` that is called, where ``holder`` may be a Python container and gets arguments as it can hold them.

        Args:
            holder: any object.
            name: one of ``METHODS``.

        Raises:
            RunTimeValueError: in the call, an item of a set, or a key of a dictionary, that the kernel computes.
        """
        function = getattr(holder, name)
        if draws(holder, name):
            current().advanced.append(holder)
        if type(holder) is str and name in METHODS_OF_TEXTS:
            return partial(METHODS_OF_TEXTS[name], holder)
        if not isinstance(holder, CONTAINERS):
            return function

        def called(*args: Any, **kwargs: Any) -> Any:
            if isinstance(holder, dict) and name in _LOOKING_METHODS:
                args = (*(_key_of(holder, key) for key in args[:1]), *args[1:])
            if isinstance(holder, set) and name in ("add", "update"):
                args = with_known_keys(args) if name == "add" else tuple(with_known_keys(set(arg)) for arg in args)
            if name in _JOINING_METHODS:
                args = tuple(map(with_values, args))
            if name in _STORING_METHODS:
                args, kwargs = self.keep(args), self.keep(kwargs)
            if name in _CHANGING_METHODS:
                current().stored.append(Stored(holder))
            result = function(*args, **kwargs)
            return with_values(result) if name == "copy" else result

        return called

    keyed = staticmethod(with_known_keys)
    items = staticmethod(with_values)

    def augment(self, scope: Names, name: str, op: str, value: Any, operand: Any) -> Any:
        """``name op= operand``.

        Args:
            scope: the local names of the user's function.
            name: the target.
            op: class name of the operator in the syntax tree, such as ``"Add"``.
            value: what the name holds.
            operand: the right-hand side.
        """
        return self.assign(scope, name, AUGMENTED[op](value, operand))

    def declare(self, scope: Names, name: str, value: Callable[[], Any], annotation: Any) -> Any:
        """``name: annotation``: the tensor that an eager program's argument is declared to be.

        Args:
            scope: the local names of the user's function.
            name: of the argument.
            value: gives what the name holds; a :class:`NameError` where it holds nothing.
            annotation: the declaration, evaluated.
        """
        try:
            present = value()
        except NameError:
            present = UNBOUND
        scope[name] = declare_argument(current(), name, present, annotation)
        return scope[name]

    def is_stale(self, scope: Names, name: str) -> bool:
        """Whether the block that just ended made the value of ``name`` depend on run-time control flow."""
        frame = current().closed
        key = (id(scope), name)
        if frame is None or key not in frame.assigned:
            return False
        before, left = frame.assigned[key], frame.left.get(key, frame.assigned[key])
        return is_stale(frame, before, scope.get(name)) or isinstance(left, Unusable) or is_stale(frame, before, left)

    def stale(self, scope: Names, name: str) -> Any:
        """The placeholder that a stale name is bound to: an error at the name's next use, not where it became stale."""
        frame = current().closed
        kind = "loop" if frame is not None and frame.kind == "loop" else "condition"
        scope[name] = Unusable(StaleValueError(name, kind, is_memory=is_buffer(scope.get(name))), scope.get(name))
        return scope[name]


def _key_of(holder: dict[Any, Any], key: Any) -> Any:
    """The key that a dictionary looks for; of one with numbers or texts as keys it must be known: others are not found there.

    Raises:
        RunTimeValueError: the kernel computes it.
    """
    is_table = all(isinstance(each, (int, float, str)) for each in holder)
    return compile_time_index(key) if is_table and not is_buffer(key) else key


def unpacked_items(values: Any) -> list[Any]:
    """The items that an assignment to several names unpacks; a scalar counts as one item."""
    return [values] if isinstance(as_operand(values), ir.PrimExpr) and not is_buffer(values) else list(values)
