"""Fingerprints of Python values by content, and the records that notice when one may have changed.

A closed world: a value counts by content only if it is of a kind that is listed here, code only if every instruction of it is
known, and whatever such code can read from outside must be a listed kind again. Anything else raises :class:`Unfaithful`, with
what it is and where.

A function counts by its code and source text, its defaults, annotations and attributes, and everything that its code can read,
helpers of helpers included; a class by its bases and namespace; an instance by its class and state; a plain value by type and
bits; code of a library by name and version, where it is listed (:mod:`~tilelang.fingerprint.libraries`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from tilelang.fingerprint import addresses, attributes, watch
from tilelang.fingerprint.canonical import canonical
from tilelang.fingerprint.reads import CLASS_MADE, MADE

MAX_VALUES = 50_000
SCALARS = (type(None), bool, int, float, complex, str, bytes)
"""Types of values that count by their text alone, wherever they are."""


_TEXT_PLACES = [[f"attribute {name!r}"] for name in ("__repr__", "__str__", "__format__")]


class Unfaithful(Exception):
    """A value that no fingerprint identifies uniquely; the message names the value and its place."""


DESCRIBERS: dict[type, Callable[[Describer, Any], None]] = {}
"""Exact type -> what feeds values of it; each module of this package adds its own."""

OTHERWISE: list[Callable[[Describer, Any], bool]] = []
"""What is asked, in order, about values of any other type; True where it was fed."""


class Describer:
    """Walks values, feeding a digest and collecting watch records.

    Args:
        trusting: take library code that is not listed by its name. What is described then must not decide any code: a tuning
            reference, for instance.
        before: has described another part of the same program, whose objects are known here too.

    Attributes:
        records: what has to hold within this process for the digest to stay the same; see :mod:`~tilelang.fingerprint.watch`.
        codes: the user's functions, as far as they have source text.
        covered: all code objects of the user that were described.
        names: attributes that the described code reads.
        texts: strings that it has.
        catches: whether it handles exceptions.
        values: attributes that it reads and does not call at once.
        methods: names of functions in classes that were described.
        computes_names: whether it reads attributes under names that are not written out there.
        environment: names of the environment variables that count.
        cached: functions with a cache of results; see :class:`~tilelang.fingerprint.cached.Cached`.
        in_progress: identities of the cached functions that are being described.
        local: why the digest means nothing to another process; empty where it does.
    """

    def __init__(self, trusting: bool = False, before: Describer | None = None) -> None:
        self.trusting = trusting
        self._state = hashlib.sha256()
        self._order: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._results: set[int] = set()
        self._before = before
        self._alive: list[Any] = []  # keeps visited objects alive, so that no id() is reused
        self._where: list[str] = []
        self._count = 0
        self._limits: dict[str, frozenset[str]] = {}
        self.records: list[tuple[int, Any, Any, Any]] = []
        self.codes: list[CodeType] = []
        self.covered: list[CodeType] = []
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.computes_names = self.catches = False
        self.values: set[str] = set()
        self.methods: set[str] = set()
        self._addressed: dict[str, str] = {}
        self._addressed_under: dict[str, Any] = {}
        self._text_methods: set[int] = set()
        self._created: set[int] = set()
        self._methods_of_equality: set[int] = set()
        self.environment: set[str] = set()
        self.local = ""
        self.in_progress: frozenset[int] = frozenset()
        self._once: set[str] = set()
        self.cached: list[Any] = []

    def digest(self) -> str:
        """SHA-256 of everything so far."""
        return self._state.hexdigest()

    def value(self, value: Any, is_given: bool = True) -> None:
        """Feeds ``value`` with its type and everything that it holds or can read.

        Args:
            value: it.
            is_given: whether code may be given the very object, and make a text of it; not where it only calls it, for instance.

        Raises:
            Unfaithful: something in it has no faithful fingerprint.
        """
        self._count += 1
        if self._count > MAX_VALUES:
            raise self.refuse(f"more than {MAX_VALUES} values can be read")
        kind = type(value)
        if kind in SCALARS:
            self.text(canonical(value))
            if kind is str:
                self.texts.add(value)
            elif value != value:  # what is not a number is found in a list by its identity
                self._seen(value)
        else:
            if is_given:
                self.shows_address(value)
            # Whether two equal tuples are one object is Python's choice, which may differ between processes.
            if kind is tuple or not self._seen(value):
                self.contents(value)

    def contents(self, value: Any) -> None:
        """Feeds a value, also one that was met before; it is kept alive."""
        self._alive.append(value)
        describe = DESCRIBERS.get(type(value))
        if describe is not None:
            describe(self, value)
        elif not any(otherwise(self, value) for otherwise in OTHERWISE):
            raise self.refuse(f"an object of type {type_name(value)}, whose state cannot be read")

    def attributes(self, table: dict[str, Any]) -> None:
        """Feeds the attributes in a dictionary; unlike the keys of other dictionaries, their names are not values."""
        if self._seen(table):
            return
        self._alive.append(table)
        self.record_dict(table)
        self.text(f"attributes {len(table)}")
        for name, item in table.items():
            with self.at(f"attribute {name!r}"):
                self.text(canonical(name))
                self.value(item, name != "__wrapped__")  # which code may not read

    def text(self, text: str) -> None:
        """Feeds a text."""
        # The length comes first, so that the digest of "ab", "c" is not that of "a", "bc".
        raw = text.encode("utf-8", "surrogatepass")
        self._state.update(b"%d:" % len(raw))
        self._state.update(raw)

    def _seen(self, value: Any) -> bool:
        """Whether ``value`` was met before; then only its position is fed, which also ends cycles."""
        # Positions, and not contents: x = [a, a] and x = [a, a.copy()] differ once the program changes an item.
        known = self._order.get(id(value))
        if known is None and self._before is not None and (known := self._before._order.get(id(value))) is not None:
            self.text("of the function")
        if known is not None:
            self._expect_method_of_equality(value, self._where[-1:])
            if id(value) in self._text_methods and self._where[-1:] not in _TEXT_PLACES:
                self.names.add(MADE)
            self.text(f"again {known}")
            return True
        self._order[id(value)] = len(self._order)
        self._tell_place(value)
        if self._before is not None and id(value) in self._before._results:
            self.text("a cached result")
        return False

    def place(self, value: Any) -> None:
        """Feeds which object ``value`` is, and not what is in it, which a program may read through another one."""
        for part, whose in self._parts():
            known = part._order.get(id(value))
            if known is not None:
                self.text(f"object {known}{whose}")
                return
        if not self._tell_place(value):
            self._alive.append(value)
            self._places[id(value)] = len(self._places)
            self.text("another object")

    def _tell_place(self, value: Any) -> bool:
        for part, whose in self._parts():
            known = part._places.get(id(value))
            if known is not None:
                self.text(f"at place {known}{whose}")
                return True
        return False

    def _parts(self) -> Iterator[tuple[Describer, str]]:
        yield self, ""
        if self._before is not None:
            yield self._before, " of the function"

    def holds_results(self, content: Describer, others: list[Describer]) -> None:
        """Notes the results that a cached function holds; an argument may be one of them.

        Args:
            content: describes them, and the keys.
            others: describe the function and the keys: what it did not make itself is where it was in every process.
        """
        self._alive += [content, *others]
        self._results.update(content._order)
        self._created.update(content._order.keys() - set().union(*(other._order.keys() | other._results for other in others)))

    def shows_address(self, value: Any) -> None:
        """Notes a value that code is given: its text, or its place in a set, may show where it lies in memory."""
        for what in addresses.shown_by(value):
            self._addressed.setdefault(what, addresses.name_of(value))

    def shows_address_under(self, attribute: str, value: Any) -> None:
        """Notes the same of a value that code is given by this attribute only."""
        self._addressed_under[attribute] = value

    def has_met(self, identity: int) -> bool:
        """Whether the object of this ``id`` was met."""
        return identity in self._order or identity in self._places or identity in self._results

    # -- limits -----------------------------------------------------------------------------------------------------

    def limit(self, what: str, names: frozenset[str]) -> None:
        """Notes that ``what`` is described only as far as none of the attributes ``names`` is read."""
        self._limits[what] = self._limits.get(what, frozenset()) | names

    def is_first(self, what: str) -> bool:
        """Whether ``what``, some state of the process, was not fed before."""
        is_first = what not in self._once
        self._once.add(what)
        return is_first

    def only_here(self, reason: str) -> None:
        """Notes that the digest holds in this process alone."""
        self.local = self.local or reason

    def finish(self, other: Describer | None = None) -> None:
        """Checks the limits, and what is read under names that are values, against all code that was described.

        Args:
            other: describes more of the same program: its arguments, for instance.

        Raises:
            Unfaithful: an attribute is read that was not described.
        """
        if self.trusting:
            return
        parts = [self] if other is None else [self, other]
        names = set().union(*(part.names for part in parts))
        texts = set().union(*(part.texts for part in parts))
        computes_names = any(part.computes_names for part in parts)
        # Texts of all parts count together: a name that one function holds may be read by another one.
        if names & attributes.CODERS:
            raise self.refuse("texts are encoded by a codec or with a handler of errors that a program may replace")
        if names & attributes.FORMATTERS:
            fields, are_hidden = attributes.formatted(texts)
            if are_hidden:
                raise self.refuse("a format text is put together from parts, which may name any attribute")
            names = names | fields
        self._check_hidden(names, texts, computes_names)
        for part in parts:
            for attribute, value in part._addressed_under.items():
                if computes_names or attribute in names | texts:
                    part.shows_address(value)
        self._check_addresses(parts, names, texts)
        created = set().union(*(part._created for part in parts))
        if any(part._order.keys() & created or part._places.keys() & created for part in parts):
            raise self.refuse("a variable has an object that a cached function holds as a result")
        if "__eq__" in names | texts and any(part._methods_of_equality for part in parts):
            raise self.refuse("an `__eq__` that compares by `is` may be called by name")
        for what, limited in self._limits.items():
            # Keyword arguments are noted as "name=", and so are texts here: f(**{"record": True}) passes one under a name that is
            # a value.
            found = sorted(limited & (names | {f"{text}=" for text in texts}))
            if found:
                raise self.refuse(f"{what}: {found[0]!r} depends on more than its value")
            if computes_names:
                raise self.refuse(f"{what}: its attributes are read under names that are not written out there")

    def _check_addresses(self, parts: Sequence[Describer], names: set[str], texts: set[str]) -> None:
        given = {what: kind for part in parts for what, kind in part._addressed.items()}
        if addresses.are_bound(*(set().union(*(getattr(part, name) for part in parts)) for name in ("values", "methods"))):
            given = dict.fromkeys((addresses.TEXT, addresses.SET), "a method")
        if CLASS_MADE in names:
            given = dict.fromkeys((addresses.TEXT, addresses.SET), "of a class that it makes")
        if addresses.SET in given and addresses.SET in names:
            raise self.refuse(f"the order of a set may depend on the address of an object ({given[addresses.SET]})")
        if addresses.TEXT in given and addresses.makes_text(names, texts, any(part.catches for part in parts)):
            raise self.refuse(f"a text may contain the address of an object ({given[addresses.TEXT]})")

    def _check_hidden(self, names: set[str], texts: set[str], computes_names: bool) -> None:
        hidden = next(filter(attributes.is_hidden, sorted(names)), None)
        if hidden is None and (computes_names or names & attributes.READER_NAMES):
            hidden = attributes.hidden_part(texts, computes_names)
        if hidden is not None:
            raise self.refuse(f"an attribute may be read by the name {hidden!r}, which is not part of a value")

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, kind: int, container: Any, key: Any, expected: Any) -> None:
        """Adds a watch record.

        Args:
            kind: a key of :data:`tilelang.fingerprint.watch.CHECKS`.
            container: what is looked into.
            key: where, as the kind takes it.
            expected: what has to be found there.
        """
        self.records.append((kind, container, key, expected))

    def record_probe(self, probe: Callable[[], Any], expected: Any) -> None:
        """Adds a record that holds while ``probe()`` gives something equal."""
        self.records.append((watch.CALL, probe, None, expected))

    def record_dict(self, table: dict) -> None:
        """Adds a record that holds while a dictionary has these very keys and values, in this order."""
        self.records.append((watch.DICT, table, tuple(table), tuple(table.values())))

    # -- errors -----------------------------------------------------------------------------------------------------

    def refuse(self, problem: str) -> Unfaithful:
        """The error that says what is wrong, and where the walk is."""
        return Unfaithful(f"{' of '.join(reversed(self._where))}: {problem}" if self._where else problem)

    def method_of_equality(self, function: Any) -> None:
        """Notes a function that tells its first argument from the second by ``is``. As the ``__eq__`` of a class, called by an
        operator, it is given an object of that class, which is told by its place; it must not be called otherwise.

        Raises:
            Unfaithful: it is found elsewhere.
        """
        self._methods_of_equality.add(id(function))
        self._expect_method_of_equality(function, self._where[-2:-1])

    def _expect_method_of_equality(self, value: Any, place: list[str]) -> None:
        if place == ["attribute '__eq__'"] or self.trusting:
            return
        if any(part is not None and id(value) in part._methods_of_equality for part in (self, self._before)):
            raise self.refuse("`is` compares values of which equal ones count as the same")

    def method_of_text(self, function: Any) -> bool:
        """Whether a function is met as the ``__repr__`` or so of a class: it then makes a text only where code asks for one."""
        is_method = self._where[-2:-1] in _TEXT_PLACES
        if is_method:
            self._text_methods.add(id(function))
        return is_method

    @contextlib.contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Names the place that the body walks."""
        self._where.append(place)
        yield
        self._where.pop()


def type_name(value: Any) -> str:
    """The full name of a value's type, for messages."""
    kind = type(value)
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def describes(*kinds: type) -> Callable[[Callable[[Describer, Any], None]], Callable[[Describer, Any], None]]:
    """Decorator: the function feeds values whose type is exactly one of ``kinds``."""

    def register(function: Callable[[Describer, Any], None]) -> Callable[[Describer, Any], None]:
        DESCRIBERS.update(dict.fromkeys(kinds, function))
        return function

    return register
