"""The interface between the CUDA target and the tile operators, and the registry of those that it knows.

A family of operators is one file of ``ops/``: it subclasses :class:`OperatorRule` and registers one instance for each operator
class. The steps of the pipeline ask :func:`rule_of` and name no operator themselves; a family is read when a kernel first has one
of its operators.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilelang.errors import MisplacedError, UnsupportedError
from tilelang.records import Record

_RULES: dict[type, OperatorRule] = {}


class TileDemand(Record):
    """A layout that an operator demands of a shared tile; of several for one tile, the first with the lowest ``rank`` is met."""

    buffer: Any
    layout: Any
    rank: tuple[int, ...] = (0,)


class Transfer(Record):
    """What a copy moves, of those that the compiler may make as it likes.

    Attributes:
        source, target: its regions.
        may_run_ahead: whether a pipeline may issue it iterations before its data is used.
    """

    source: Any
    target: Any
    may_run_ahead: bool


class Asynchronous(Record):
    """The form of an operator that is only started, and waited for later.

    Attributes:
        started: the operator as one that is only started.
        awaited: of a number, the operator as the wait for what has been started, except so many of the newest of its kind.
        accumulates: whether it certainly adds to what is in its result.
        may_stay_in_flight: of a number, whether so many threads can leave it in flight.
    """

    started: Any
    awaited: Callable[[int], Any]
    accumulates: bool
    may_stay_in_flight: Callable[[int], bool]


class OperatorRule:
    """How the CUDA target handles a tile operator. The methods here suit one that stays as it is and demands no layouts.

    Attributes:
        cooperative: whether the threads that run it share its work; false of hints to the hardware.
        collective: whether all threads of the group must reach it.
        in_warps: whether it needs whole warps.
        local: whether its only effect is to compute its result from its operands.
        is_ordered: whether its tiles stay in order where a program orders its threads itself.
        reads_itself: whether a thread that comes to it reads the tensors among its operands, as a statement of the program would.
    """

    cooperative = True
    collective = True
    in_warps = False
    local = False
    is_ordered = False
    reads_itself = False

    # What it becomes, and what it does to its operands -----------------------------------------------------------------

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        """The nodes of the tile tree that the operator becomes: itself, with temporaries around it, or a nest.

        Args:
            op: the decoded operator.
            span: where it stands in the program.
            reader: makes nodes and temporaries (``operator``, ``parallel``, ``copy``, ``temporary``, ``shared``).
        """
        return [reader.operator(op, span)]

    def hint(self, op: Any, span: Any, hints: Any) -> bool:
        """Whether the operator is a hint about the kernel; if so, it is added to ``hints``.

        Args:
            op: the operator.
            span: its source location.
            hints: the hints of the kernel so far.
        """
        return False

    def destination(self, op: Any) -> Any:
        """The region that the operator writes element by element; None where it is no copy."""
        return None

    def overwritten(self, op: Any) -> Any:
        """The buffer's region that the operator overwrites as a whole, whatever was there; None where there is none."""
        written = [region for region, access in op.regions() if access == "w"]
        return written[0] if len(written) == 1 and written[0].is_whole else None

    def transfer(self, op: Any) -> Transfer | None:
        """What the operator copies, if the compiler may make that copy as it likes; None of any other operator."""
        return None

    # When it runs ------------------------------------------------------------------------------------------------------

    def load(self, op: Any, facts: Any) -> Callable[[Any, Any], Any] | None:
        """The copy to a shared tile as a load of the tensor memory accelerator: of a tile and an mbarrier, the operator that
        starts to fill that tile, and completes on the barrier. None where the accelerator cannot make the copy."""
        return None

    def asynchronous(self, op: Any) -> Asynchronous | None:
        """The form of the operator that is only started, and waited for later; None where it has none."""
        return None

    def is_asynchronous(self, op: Any) -> bool:
        """Whether the operator may be incomplete after its statement; something later waits for it."""
        return False

    def at_once(self, op: Any) -> list[Any]:
        """What does the same as the operator and leaves nothing in flight: in place of one that would be in flight one that is
        complete at its end, as are all before it; nothing in place of the wait for such a one."""
        return [op]

    def read_after(self, op: Any) -> set[Any]:
        """The buffers that the operator may still read when its statement is over, until the program waits for it."""
        return {region.buffer for region, access in op.regions() if access == "r"} if self.is_asynchronous(op) else set()

    def pinned(self, node: Any, emitter: Any) -> list[Any]:
        """The instructions after a wait that keep the results of an asynchronous operator from being read before."""
        return []

    def registers(self, op: Any) -> tuple[str, int] | None:
        """Whose registers the operator sets, and how many; None where it sets none."""
        return None

    # Layouts -----------------------------------------------------------------------------------------------------------

    def plan(self, node: Any, problem: Any, memory: Mapping[Any, Any]) -> Any:
        """How the operator is computed, where layouts depend on that choice; None where they do not.

        Args:
            node: the operator in the tree.
            problem: the kernel (:class:`~tilelang.target.cuda.inference.problem.Problem`).
            memory: the layouts of shared tiles that the user fixed.
        """
        return None

    def demands(self, op: Any, plan: Any) -> Iterable[tuple[Any, Any]]:
        """The fragments among the operands with the layouts that the plan demands of them."""
        return ()

    def tiles(self, op: Any, plan: Any) -> Iterable[TileDemand]:
        """The layouts that the plan demands of shared operands."""
        return ()

    def moved_in_bulk(self, op: Any, problem: Any) -> Iterable[TileDemand]:
        """The shared tiles that the tensor memory accelerator moves, with the layouts that it writes by default."""
        return ()

    def offer(self, op: Any, fragments: Mapping[Any, Any]) -> tuple[Any, Any] | None:
        """A fragment and the layout that it gets by the layouts of the other operands; None where they do not tell."""
        return None

    def misfits(self, op: Any, plan: Any, fragments: Mapping[Any, Any]) -> Iterable[tuple[Any, str]]:
        """The fragments that do not lie as the operator needs them, demands aside, and why.

        Args:
            op: the operator.
            plan: as :meth:`plan` gave it.
            fragments: the layouts of fragments that are known.
        """
        return ()

    def proofs(self, op: Any, fragments: Mapping[Any, Any], threads: int) -> Iterable[tuple[bool, Any, str]]:
        """What must hold of the final layouts: whether it does, of which buffer, and the fault where it does not.

        Args:
            op: the operator.
            fragments: the layout of every fragment.
            threads: how many run the operator.
        """
        return ()

    def cost(self, op: Any, fragments: Mapping[Any, Any]) -> float:
        """Cycles of a warp that depend on the layouts (:mod:`~tilelang.target.cuda.inference.cost`)."""
        return 0

    def takes_shared(self, op: Any, buffers: set[Any]) -> bool:
        """Whether a tile in shared memory may stand for the fragment that any of ``buffers`` names."""
        return False

    # Code --------------------------------------------------------------------------------------------------------------

    def lower(self, node: Any, generator: Any) -> list[Any]:
        """The device code of the operator, from its node and the layouts that inference chose.

        Raises:
            UnsupportedError: the architecture cannot do it.
        """
        raise UnsupportedError(f"{type(node.op).__name__} is not supported on CUDA")

    def lower_scalar(self, op: Any, emitter: Any) -> list[Any]:
        """The instructions of an operator in the body of a nest: those of one iteration.

        Raises:
            MisplacedError: its work would have to be shared out among the threads.
        """
        raise MisplacedError(
            f"{op.called} inside T.Parallel: its iterations are shared out among the threads already",
            hint="use T.serial, or move it out of the loop",
        )

    def lower_nest(self, node: Any, generator: Any) -> list[Any]:
        """The device code of the nest that the operator was read as."""
        return generator.nest(node)


def implements(*operators: type) -> Callable[[type[OperatorRule]], type[OperatorRule]]:
    """Class decorator: the rule is that of ``operators``.

    Raises:
        ValueError: one of them has a rule already.
    """

    def register(rule: type[OperatorRule]) -> type[OperatorRule]:
        for operator in operators:
            if operator in _RULES:
                other = type(_RULES[operator])
                raise ValueError(f"{operator.__name__} is implemented by {other.__module__} and by {rule.__module__}")
            _RULES[operator] = rule()
        return rule

    return register


@functools.cache
def _load_family(declared_in: str) -> None:
    """Reads the rules of a family of operators: what ``tileop/<family>.py`` declares, or ``tile/<family>.py`` where only the
    compiler makes one, ``ops/<family>.py`` implements.

    They are above this interface, which every step below them asks; a kernel needs those of its own operators only.
    """
    package, _, family = declared_in.rpartition(".")
    if package in ("tilelang.tileop", "tilelang.target.cuda.tile"):
        importlib.import_module(f"tilelang.target.cuda.ops.{family}")


_ANY = OperatorRule()


def is_implemented(op: Any) -> bool:
    """Whether an operator has a rule."""
    return rule_of(op) is not _ANY


def rule_of(op: Any) -> OperatorRule:
    """The rule of an operator; of one that has none, and of None, the one that refuses it where it would be lowered."""
    if type(op) not in _RULES:
        _load_family(type(op).__module__)
    return _RULES.get(type(op), _ANY)
