"""The interface between the CUDA target and the tile operators, and the registry of those that it knows.

A family of operators is one file of ``ops/``: it subclasses :class:`OperatorRule` and registers one instance for each operator
class. The steps of the pipeline ask :func:`rule_of` and name no operator themselves.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tilelang.errors import CompileError

_RULES: dict[type, OperatorRule] = {}


class OperatorRule:
    """What the CUDA target does with a tile operator. The methods here are those of an operator that is one call.

    Attributes:
        scoped: the threads of the scope that it stands in run it together, as they do all but remarks to the hardware.
        collective: all of them have to come.
        in_warps: it needs whole warps.
    """

    scoped = True
    collective = True
    in_warps = False

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        """The nodes of the tile tree that the operator becomes: itself, with temporaries around it, or a nest.

        Args:
            op: the decoded operator.
            span: where it stands in the program.
            reader: makes nodes and temporaries (``operator``, ``parallel``, ``copy``, ``temporary``, ``shared``, ``hint``).
        """
        return [reader.operator(op, span)]

    def destination(self, op: Any) -> Any:
        """The region that the operator writes element by element; None where it is no copy."""
        return None

    def overwritten(self, op: Any) -> Any:
        """The region that the operator overwrites as a whole, whatever was there; None where there is none."""
        return None

    def may_run_ahead(self, op: Any) -> bool:
        """Whether a pipeline may issue the operator iterations before its data is used."""
        return False

    def lower(self, node: Any, generator: Any) -> list[Any]:
        """The device code of the operator, from its node and the layouts that inference chose.

        Raises:
            CompileError: the architecture cannot do it.
        """
        raise CompileError(f"{type(node.op).__name__} is not supported on CUDA")

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
def _load() -> None:
    """Reads the rules: they are above this interface, which every step below them asks."""
    importlib.import_module("tilelang.target.cuda.ops")


_ANY = OperatorRule()


def rule_of(op: Any) -> OperatorRule:
    """The rule of an operator; of one that has none, the one that refuses it where it would be lowered."""
    _load()
    return _RULES.get(type(op), _ANY)
