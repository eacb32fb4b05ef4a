"""Static analysis of a function's code: the globals, closure cells, imports and their attributes that it can read.

The byte code determines everything that runs; annotations that Python does not evaluate, but the front end does, come from
the source text (:mod:`~tilelang.fingerprint.annotations`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from tilelang.fingerprint import opcodes
from tilelang.fingerprint.callees import is_called, is_raised
from tilelang.fingerprint.opcodes import Step

GLOBAL, FREE, IMPORTED = "global", "free", "imported"
MEMBERSHIP, IDENTITY, ANNOTATION, PRESENCE, CALLED = "membership", "identity", "annotation", "presence", "called"
ATTRIBUTE_READERS = ("getattr", "hasattr")
TEXT_BUILTINS = (str, repr, ascii, format)
MADE, RAISED, CLASS_MADE = "{}", "raise {}", "class {}"
"""Among the names that code reads: a text is made of a value, one that is only raised, a class."""


class Import(NamedTuple):
    """An import statement's module: as it is written, how many packages up, and the attributes that the statement takes."""

    module: str
    level: int
    chain: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join(("." * self.level + self.module, *self.chain)).replace("..", ".")


class Read(NamedTuple):
    """One thing that code reads.

    Attributes:
        root: ``global``, ``free`` (a closure cell) or ``imported`` (by an import statement inside the function).
        name: the variable, or the import.
        chain: the attributes that follow, as in ``name.a.b``.
        constant: the string that is the only subscript, or the first argument of a call with plain arguments, as in
            ``os.environ["X"]`` and ``os.getenv("X")``.
        use: ``membership`` where it only is the right side of ``in``, ``identity`` of ``is``; ``annotation`` where only a front
            end reads it; ``presence`` where an import statement only has to find it; ``called`` where it is called, and nothing
            else is done with it.
    """

    root: str
    name: str | Import
    chain: tuple[str, ...] = ()
    constant: str | None = None
    use: str = ""


class CodeReads(NamedTuple):
    """Everything that code and the code inside it can read.

    Attributes:
        reads: each once, in order.
        names: attributes that are read from any value, ``name=`` for each keyword of a call, ``|=``, ``^=`` and ``%``, and what
            :mod:`~tilelang.fingerprint.addresses` calls texts that are made.
        values: those of the attributes that are not called at once.
        texts: strings among the constants.
        makes_sets: whether it makes sets while it runs, other than for ``in``.
        computes_names: whether attributes are read by ``getattr`` under names that are not written out there.
        catches: whether it goes on after an exception.
        compares_identity: whether ``is`` may tell equal values from one another.
        compares_self: whether ``is`` tells the object of an ``__eq__`` from the other one.
    """

    reads: tuple[Read, ...]
    names: frozenset[str]
    values: frozenset[str]
    texts: frozenset[str]
    makes_sets: bool
    computes_names: bool
    catches: bool
    compares_identity: bool
    compares_self: bool


def code_tree(code: CodeType) -> Iterator[CodeType]:
    """``code`` and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_tree(constant)


@functools.lru_cache(maxsize=4096)
def code_reads(code: CodeType) -> CodeReads:
    """The reads of ``code`` and of the functions, classes and comprehensions inside it.

    Raises:
        UnknownInstruction: it has an instruction, or a form of import, that is not known.
    """
    # Over-approximation is safe: a read that never happens makes the fingerprint change too often, one that is missed lets a
    # stale kernel through.
    parts = [_Part(part) for part in code_tree(code)]
    imports: dict[str, list[Import]] = {}
    for part in parts:
        for variable, found in part.imports():
            imports.setdefault(variable, []).append(found)
    # A dictionary instead of a set: the order of reads goes into the digest, and must be the same in every process.
    reads = {Read(IMPORTED, found, use=PRESENCE): None for several in imports.values() for found in several}
    reads |= {read: None for part in parts for read in part.reads(frozenset(code.co_freevars), imports)}
    return CodeReads(
        tuple(reads),
        frozenset(name for part in parts for name in part.names()) | {"encode" for part in parts if part.converts()},
        frozenset(name for part in parts for name in part.values()),
        frozenset(text for part in parts for text in part.code.co_consts if isinstance(text, str)),
        any(part.makes_sets() for part in parts),
        any(part.computes_names() for part in parts),
        any(part.catches() for part in parts),
        any(part.compares_identity(frozenset(code.co_freevars)) for part in parts),
        any(parts[0].compares_self(at) for at in range(len(parts[0].steps))),
    )


_TEXT_BUILTINS = frozenset(each.__name__ for each in TEXT_BUILTINS)
_TYPE_CHECKS = ("isinstance", "issubclass")
_USES = {opcodes.CONTAINS: MEMBERSHIP, opcodes.IDENTITY: IDENTITY}
_SINGLE = (None, True, False, ..., NotImplemented)
_OPERANDS = (opcodes.CONSTANT, opcodes.LOCAL, opcodes.GLOBAL, opcodes.FREE)
_ENDS = (*_OPERANDS, opcodes.ATTRIBUTE, opcodes.CALL, opcodes.CALL_BY_KEYWORD, opcodes.SUBSCRIPT, opcodes.STORE)
"""Kinds of steps that an operand may end with."""
_CODERS = ("encode", "decode")
_COMMON_CODECS = ("utf-8", "utf8", "UTF-8", "ascii", "latin-1", "latin1")


class _Part:
    """One code object without the code inside it."""

    def __init__(self, code: CodeType):
        self.code = code
        self.steps = list(opcodes.steps(code))

    def kind(self, position: int) -> str | None:
        """The kind of the step at ``position``, or None past either end."""
        return self.steps[position].kind if 0 <= position < len(self.steps) else None

    # -- imports ----------------------------------------------------------------------------------------------------

    def imports(self) -> Iterator[tuple[str, Import]]:
        """(variable, what an import statement puts there)."""
        for position, step in enumerate(self.steps):
            if step.kind is opcodes.IMPORT:
                yield from self._import(position, step.argument)

    def _import(self, position: int, module: str) -> Iterator[tuple[str, Import]]:
        # IMPORT_NAME takes the level and the tuple of names from the stack, where two LOAD_CONST have put them.
        level, names = (self.steps[position + offset].argument for offset in (-2, -1))
        after = position + 1
        if names:
            for name in names:
                yield self._stored(after + 1), Import(module, level, (name,))
                after += 2
        elif self.kind(after) is opcodes.IMPORT_FROM:  # import a.b as c
            # One IMPORT_FROM for each part after the first, with a swap and a pop between two of them, and then the store.
            parts = module.split(".")
            yield self._stored(after + 3 * len(parts) - 5), Import(module, level, tuple(parts[1:]))
        else:
            yield self._stored(after), Import(module, level)

    def _stored(self, position: int) -> str:
        if self.kind(position) is not opcodes.STORE:
            raise opcodes.UnknownInstruction("an import statement in a class, or of a form that is not known")
        return self.steps[position].argument

    # -- reads ------------------------------------------------------------------------------------------------------

    def reads(self, free: frozenset[str], imports: dict[str, list[Import]]) -> Iterator[Read]:
        """The reads of this code alone.

        Args:
            free: the variables of the whole function's closure.
            imports: what import statements anywhere in the function put into its variables.
        """
        for position, step in enumerate(self.steps):
            if step.kind is opcodes.GLOBAL:
                yield self._read(GLOBAL, step.argument, position)
            elif step.kind is opcodes.FREE and step.argument in free:
                yield self._read(FREE, step.argument, position)
            # A variable that any import statement of the function stores to may hold that module wherever it is read.
            if step.kind in (opcodes.GLOBAL, opcodes.FREE, opcodes.LOCAL):
                for found in imports.get(step.argument, ()):
                    yield self._read(IMPORTED, found, position)

    def _read(self, root: str, name: str | Import, position: int) -> Read:
        chain, after = self._chain(position)
        use = _USES.get(self.kind(after) or "", "")
        if not use and is_called(self.code, self.steps[after - 1].offset):
            use = CALLED
        return Read(root, name, chain, self._constant(position, after), use)

    def _chain(self, position: int) -> tuple[tuple[str, ...], int]:
        after = position + 1
        while self.kind(after) is opcodes.ATTRIBUTE:
            after += 1
        return tuple(step.argument for step in self.steps[position + 1 : after]), after

    def _constant(self, position: int, after: int) -> str | None:
        """The string that is the whole subscript, first argument, or left side of ``in``; None where it may be another."""
        found: Any = None
        if self.kind(after) is opcodes.CONTAINS and self.kind(position - 1) is opcodes.CONSTANT:
            # A jump to here comes from a left side that is not this constant alone.
            if self.steps[position].offset not in _jump_targets(self.code):
                found = self.steps[position - 1].argument
        elif self.kind(after) is opcodes.CONSTANT and (self.kind(after + 1) is opcodes.SUBSCRIPT or self._plain_call(after)):
            found = self.steps[after].argument
        return found if isinstance(found, str) else None

    def _plain_call(self, first: int) -> bool:
        """Whether the step ``first`` is the first of one or two positional arguments that are constants or variables."""
        count = 2 if self.kind(first + 1) in _OPERANDS else 1
        return self.kind(first + count) is opcodes.CALL and self.steps[first + count].argument == count

    def catches(self) -> bool:
        """Whether there is a handler of exceptions, other than the end of a ``with`` statement, whose object decides."""
        after = (self.kind(position + 1) for position, step in enumerate(self.steps) if step.kind is opcodes.HANDLER)
        return self.code.co_name == "__exit__" or any(kind is not opcodes.WITH for kind in after)

    def compares_identity(self, free: frozenset[str]) -> bool:
        """Whether the right side of an ``is`` is neither a constant without equals, a class, nor a variable from outside, of
        which a :class:`Read` tells.

        Args:
            free: the variables of the whole function's closure.
        """
        compared = (at for at, step in enumerate(self.steps) if step.kind is opcodes.IDENTITY and not self.compares_self(at))
        found = (self._single(at - 1, free) for at in compared)
        # What else precedes an operand than its left side, a jump for instance, makes it one of several.
        return any(first is None or self.kind(first - 1) not in _ENDS for first in found)

    def compares_self(self, at: int) -> bool:
        """Whether the step is the ``is`` of ``self is other`` in an ``__eq__``, as dataclasses have it from Python 3.13."""
        # `is` shows whether two equal values are one object, which differs between processes. In `__eq__` it is a shortcut: where
        # it gives True the comparison of the attributes would, too.
        operands = [step.argument for step in self.steps[max(at - 2, 0) : at] if step.kind is opcodes.LOCAL]
        is_first = self.steps[at].kind is opcodes.IDENTITY and at == 2
        return is_first and self.code.co_name == "__eq__" and operands == [*self.code.co_varnames[:2]]

    def _single(self, last: int, free: frozenset[str]) -> int | None:
        """The first step of an operand that ends with the step ``last``; None where an equal value may be another object."""
        step, first = self.steps[last], last
        if step.kind is opcodes.CONSTANT:
            return last if any(step.argument is each for each in _SINGLE) else None
        if step.kind is opcodes.CALL and step.argument == 1:  # type(x)
            first = self._first_of_chain(last - 1) - 1
            return first if self.kind(first) is opcodes.GLOBAL and self.steps[first].argument == "type" else None
        first = self._first_of_chain(last)
        is_outer = self.kind(first) is opcodes.GLOBAL or self.kind(first) is opcodes.FREE and self.steps[first].argument in free
        return first if is_outer or step.argument == "__class__" else None

    def _first_of_chain(self, last: int) -> int:
        while self.kind(last) is opcodes.ATTRIBUTE:
            last -= 1
        return last

    # -- names ------------------------------------------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        """The attributes that are read."""
        for position, step in enumerate(self.steps):
            if step.kind in (opcodes.ATTRIBUTE, opcodes.IMPORT_FROM):
                attribute: str = step.argument
                yield f"{attribute}()" if attribute in _CODERS and self._names_no_codec(position) else attribute
            elif step.kind is opcodes.FORMAT:
                yield self._text_made(step)
                if step.argument and not self._formats_anywhere_alike(position):
                    yield "__format__"
            elif step.kind is opcodes.GLOBAL and step.argument in _TEXT_BUILTINS and not self._checks_type(position):
                yield self._text_made(step)
            elif step.kind is opcodes.GLOBAL and step.argument == "__build_class__":
                yield CLASS_MADE
            elif step.kind is opcodes.OTHER and step.argument is not None:
                yield step.argument
            elif step.kind is opcodes.CLASS_PATTERN:
                yield from self._texts_in_tuples()
            elif step.kind is opcodes.CALL_BY_KEYWORD:
                yield from map("{}=".format, self._texts_in_tuples())
            elif self._reads_attribute(step):
                name = self._written_name(position)
                if name is not None:
                    yield name

    def values(self) -> Iterator[str]:
        """The attributes that are read and not called at once."""
        for step in self.steps:
            if step.kind is opcodes.ATTRIBUTE and not is_called(self.code, step.offset):
                yield step.argument

    def _text_made(self, step: Step) -> str:
        return RAISED if is_raised(self.code, step.offset) else MADE

    def _checks_type(self, position: int) -> bool:
        """Whether a class is the second argument of ``isinstance(x, str)``, or an item of it."""
        first = position - 1
        while self.kind(first) in (*_OPERANDS, opcodes.ATTRIBUTE):
            if self.kind(first) is opcodes.GLOBAL and self.steps[first].argument in _TYPE_CHECKS:
                return not is_called(self.code, self.steps[position].offset)
            first -= 1
        return False

    def _formats_anywhere_alike(self, position: int) -> bool:
        """Whether the specification ``x`` of ``f"{value:x}"`` is written out, and does not ask for the locale's separators."""
        spec = self.steps[position - 1]
        return spec.kind is opcodes.CONSTANT and isinstance(spec.argument, str) and not spec.argument.endswith("n")

    def _names_no_codec(self, position: int) -> bool:
        """Whether ``x.encode`` or ``x.decode`` is called without arguments or with one of the codecs that C code has itself."""
        after = position + 1
        if self.kind(after) is opcodes.CONSTANT and self.steps[after].argument in _COMMON_CODECS:
            after += 1
        return self.kind(after) is opcodes.CALL and self.steps[after].argument == after - position - 1

    def converts(self) -> bool:
        """Whether ``str``, ``bytes`` or ``bytearray`` is called with a codec."""
        return any(
            step.kind is opcodes.GLOBAL and step.argument in ("str", "bytes", "bytearray") and self._has_second_argument(position)
            for position, step in enumerate(self.steps)
        )

    def _has_second_argument(self, position: int) -> bool:
        after, count = position + 1, 0
        while self.kind(after) in (*_OPERANDS, opcodes.ATTRIBUTE):
            count += self.kind(after) is not opcodes.ATTRIBUTE
            after += 1
        is_call = self.kind(after) is opcodes.CALL and self.steps[after].argument == count
        return count > 1 and (is_call or self.kind(after) is opcodes.CALL_BY_KEYWORD)

    def computes_names(self) -> bool:
        """Whether ``getattr`` is used in another way than with a constant for the name."""
        return any(self._reads_attribute(step) and self._written_name(n) is None for n, step in enumerate(self.steps))

    @staticmethod
    def _reads_attribute(step: Step) -> bool:
        return step.kind is opcodes.GLOBAL and step.argument in ATTRIBUTE_READERS

    def _written_name(self, position: int) -> str | None:
        """The constant name in ``getattr(variable.a.b, "name")``."""
        if self.kind(position + 1) not in (opcodes.GLOBAL, opcodes.FREE, opcodes.LOCAL):
            return None
        _, after = self._chain(position + 1)
        count = 3 if self.kind(after + 1) in _OPERANDS else 2
        is_call = self.kind(after + count - 1) is opcodes.CALL and self.steps[after + count - 1].argument == count
        name = self.steps[after].argument if self.kind(after) is opcodes.CONSTANT and is_call else None
        return name if isinstance(name, str) else None

    def _texts_in_tuples(self) -> Iterator[str]:
        for constant in self.code.co_consts:
            if isinstance(constant, tuple):
                yield from (item for item in constant if isinstance(item, str))

    def makes_sets(self) -> bool:
        """Whether a set is made, other than for a test whether something is in it; the order of its items is not the code's."""
        for position, step in enumerate(self.steps):
            # `x in {1, 2}` is compiled to a frozenset constant, whose order no one sees.
            is_set = step.kind is opcodes.SET or (step.kind is opcodes.CONSTANT and isinstance(step.argument, frozenset))
            if is_set and self.kind(position + 1) not in (opcodes.CONTAINS, opcodes.SET):
                return True
        return False


@functools.lru_cache(maxsize=256)
def _jump_targets(code: CodeType) -> frozenset[int]:
    import dis  # few functions need it, and it takes longer to import than to read the byte code

    return frozenset(dis.findlabels(code.co_code))  # pyright: ignore[reportArgumentType] - it takes the bytes
