"""``if`` statements while they are traced, and the names whose value then depends on the path that the kernel takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilelang.errors import MisplacedError, StaleValueError
from tilelang.frontend.access import is_buffer, names_memory
from tilelang.frontend.attributes import Arm, give_back, taken_from
from tilelang.frontend.builder import Builder, current, sequence
from tilelang.frontend.containers import State
from tilelang.frontend.frames import Frame
from tilelang.frontend.names import UNBOUND, Names
from tilelang.frontend.texts import Text
from tilelang.frontend.values import LocalVar, Unusable
from tilelang.ir import nodes as ir
from tilelang.ir.span import user_location


class Branch:
    """A compile-time ``if``: one arm is traced."""

    def __init__(self, taken: bool):
        self.taken = taken

    def enter_then(self) -> bool:
        """Whether to trace the first arm."""
        return self.taken

    def enter_else(self) -> bool:
        """Whether to trace the second arm."""
        return not self.taken

    def is_left(self, scope: Names, name: str) -> bool:
        """Whether ``name`` holds what the first arm has left there, where the second one begins."""
        return False

    def before(self, scope: Names, name: str) -> Any:
        """What it held before the statement."""

    def close(self) -> None:
        """Ends an arm."""

    def finish(self) -> None:
        """Ends the statement."""
        current().closed = None


class DynamicBranch(Branch):
    """A run-time ``if``: both arms are traced.

    Args:
        builder: of the program.
        condition: a boolean expression.
        state: of Python's objects before the statement.
        names: what the local names hold there.
    """

    def __init__(self, builder: Builder, condition: Any, state: State, names: Mapping[str, Any]):
        super().__init__(True)
        self.builder = builder
        self.condition = condition
        self.state = state
        self.names = dict(names)
        self.span = builder.span()
        self.arms: list[Frame] = []
        self.attributes: list[Arm] = []
        self.stored = 0
        self.frame: Frame | None = None
        self.assigned: dict[Any, Any] = {}
        self.left: dict[Any, Any] = {}

    def _enter(self) -> bool:
        self.frame = self.builder.open("branch", lambda body: body)
        self.stored = len(self.builder.stored)
        return True

    enter_then = enter_else = _enter

    def is_left(self, scope: Names, name: str) -> bool:
        before, now = self._held_before(scope, name), scope.held(name)
        # Memory that only the first arm names is the same memory in the second one, and a definition the same definition.
        is_kept = before is UNBOUND and (names_memory(now) or isinstance(now, LocalVar) or is_definition(now))
        return now is not before and not is_kept

    def before(self, scope: Names, name: str) -> Any:
        before, key = self._held_before(scope, name), (id(scope), name)
        self.left[key] = scope.held(name)
        # The variable of a loop in the first arm was not noted as assigned.
        self.assigned.setdefault(key, before)
        scope[name] = Unusable(StaleValueError(name, "condition")) if before is UNBOUND else before
        return scope[name]

    def _held_before(self, scope: Names, name: str) -> Any:
        return self.assigned.get((id(scope), name), self.names.get(name, UNBOUND))

    def close(self) -> None:
        """Ends an arm: its statements are kept for the ``if``."""
        if self.builder.frames[-1] is not self.frame:
            raise MisplacedError("scopes are closed in the wrong order", user_location())
        frame = self.builder.frames.pop()
        self.arms.append(frame)
        self.attributes.append(taken_from(self.state, self.stored))
        for key, before in frame.assigned.items():
            # Memory or a function of the first arm is what the second one finds: another one there is compared.
            if key not in self.assigned or is_buffer(before) or isinstance(before, LocalVar) or is_definition(before):
                self.assigned[key] = before

    def finish(self) -> None:
        """Emits the ``if``."""
        self.state.refuse_changed("condition")
        give_back(self.state, self.attributes)
        then, *rest = (sequence(arm.stmts) for arm in self.arms)
        self.builder.emit(ir.IfThenElse(self.condition, then, rest[0] if rest else None, self.span))
        for arm in self.arms:
            self.builder.leave(arm)
        frame = Frame("branch", lambda body: body, assigned=self.assigned, left=self.left)
        self.builder.note_assigned(self.assigned)
        self.builder.closed = frame


def is_stale(frame: Frame, before: Any, value: Any) -> bool:
    """Whether a block made the value of a name depend on run-time control flow.

    After ``if n > 0: x = A[0]`` the name holds a value that exists on one path only. A ``T.alloc_var`` is not stale unless the
    name held something else before, nor is a buffer unless that was another buffer, and the block may not run; neither is a
    Python value that the block leaves as it was, or a constant that only a loop assigns, or a function that only the block
    defines.

    Args:
        frame: the block, which has just been closed.
        before: the value before the block, or ``UNBOUND``.
        value: the value after it.
    """
    if isinstance(value, Unusable) or value is before:
        return False
    if isinstance(value, LocalVar):
        return before is not UNBOUND and not frame.always
    if is_buffer(value):
        return (before is None or is_buffer(before) and not value.same_as(before)) and not frame.always
    if isinstance(value, (ir.PrimExpr, Text)):
        return True
    # Slices have no equality: a comparison of two is one of their elements; so is one of numpy's arrays.
    unchanged = not names_memory(value) and type(value) is type(before) and (value == before) is True
    return not unchanged and (before is not UNBOUND or frame.kind == "branch" and not is_definition(value))


def is_definition(value: Any) -> bool:
    """Whether ``value`` is a function, a class or a module: one that a block defines anew may be used after it."""
    return not isinstance(value, Unusable) and (callable(value) or isinstance(value, ModuleType))
