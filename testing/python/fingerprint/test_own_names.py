"""Names of ``tilelang.language`` in a fingerprint: what a program put into their place, or changed in them."""

from __future__ import annotations

import importlib
import operator
from types import ModuleType
from typing import Any

import pytest
from tvm import DataType, tirx

import tilelang
import tilelang.language as T
import tilelang.layout
from tilelang.dtypes import DType
from tilelang.fingerprint import Describer, Unfaithful, Watch
from tilelang.fingerprint.reads import CALLED, code_reads

_MATH = T._HOME["ceildiv"]  # pyright: ignore[reportAttributeAccessIssue]


def _home() -> Any:
    return importlib.import_module(_MATH)


def _cell(function: Any) -> Any:
    return next(cell for cell in function.__closure__ if callable(cell.cell_contents))


def ceildiv(n: int) -> Any:
    return T.ceildiv(n, 2)


def bits() -> int:
    return T.float32.bits


def wide(policy: Any = None) -> bool:
    return (policy or T.GemmWarpPolicy).FullRow.is_full_row()


def given() -> bool:
    return wide(T.GemmWarpPolicy)


def symbolic() -> Any:
    return T.symbolic("n")


class Operation:
    def build(self) -> Any:
        @tilelang.jit(out_idx=[-1], target="cpu")
        def factory() -> Any:
            return self

        return factory


def operation() -> Any:
    return Operation


class _Other(type(tilelang.jit)):
    pass


CHANGES = {
    "the name": (ceildiv, lambda patch: patch.setattr(T, "ceildiv", len)),
    "the name in its module": (ceildiv, lambda patch: patch.setattr(_home(), "ceildiv", lambda a, b: 99)),
    "another function of ours": (ceildiv, lambda patch: patch.setattr(_home(), "ceildiv", T.max)),
    "the function that a decorator calls": (
        ceildiv,
        lambda patch: patch.setattr(_cell(T.ceildiv), "cell_contents", lambda a, b: 99),
    ),
    "the module that is asked": (ceildiv, lambda patch: patch.setitem(T._HOME, "ceildiv", "math")),  # pyright: ignore[reportAttributeAccessIssue]
    "a property of a dtype": (bits, lambda patch: patch.setattr(DType, "bits", 5)),
    "a method of a class": (wide, lambda patch: patch.setattr(T.GemmWarpPolicy, "is_full_row", lambda self: 5)),
    "a method of a class that is passed": (given, lambda patch: patch.setattr(T.GemmWarpPolicy, "is_full_row", lambda self: 5)),
    "a module that is called": (operation, lambda patch: patch.setattr(tilelang, "jit", len)),
    "the class of a module that is called": (operation, lambda patch: patch.setattr(tilelang.jit, "__class__", _Other)),
    "what calls a module": (operation, lambda patch: patch.setattr(type(tilelang.jit), "__call__", lambda self, **options: 99)),
    "what a module is called for": (operation, lambda patch: patch.setattr(tilelang.jit, "jit", lambda **options: 99)),
    "a default": (symbolic, lambda patch: patch.setattr(T.symbolic, "__defaults__", ("int64",))),
}


_REFUSED = tilelang.layout.PartialFragment


def with_refused_name(needed: bool) -> None:
    if needed:
        _REFUSED()


def _described(function: Any) -> tuple[str, Watch]:
    describer = Describer()
    try:
        describer.value(function, is_given=False)
        describer.finish()
    except Unfaithful as error:
        return f"off: {error}", Watch([])
    return describer.digest(), Watch(describer.records)


WHERE_IT_IS_MADE = ("the name in its module", "another function of ours", "the module that is asked")
"""What has an effect on a name that is asked for later."""


CASES = [(change, False) for change in CHANGES] + [(change, True) for change in CHANGES if change not in WHERE_IT_IS_MADE]


@pytest.mark.parametrize(("change", "is_loaded"), CASES)
def test_a_change_of_the_language_is_noticed(change: str, is_loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, apply = CHANGES[change]
    before, watch = _described(function)
    assert not before.startswith("off") and watch.holds()
    apply(monkeypatch)
    if not is_loaded:  # as in a process that asks for the name after the change
        for name in ("ceildiv", "GemmWarpPolicy", "symbolic"):
            if change != "the name":
                monkeypatch.delitem(T.__dict__, name, raising=False)
    assert not watch.holds()
    assert _described(function)[0] != before


def test_every_name_of_the_language_is_as_its_file_has_it() -> None:
    """Else a program that uses it would lose the shortcut."""
    from tilelang.fingerprint import own

    unusual = []
    for name, home in T._HOME.items():  # pyright: ignore[reportAttributeAccessIssue]
        value = getattr(importlib.import_module(home), name)  # T itself stays as it is
        if not isinstance(value, ModuleType) and not own.is_pristine(Describer(), T, name, value):
            unusual.append(f"{home}.{name}")
    assert len(unusual) <= 2, unusual  # PrimExpr, and a function that reads sources


def test_a_function_with_a_tensor_in_its_signature_has_a_fingerprint() -> None:
    def eager(A: Any) -> Any:
        return A

    eager.__annotations__["A"] = T.Tensor((8,), "int32")  # as in a module that does not postpone annotations
    assert not _described(eager)[0].startswith("off")


def test_a_tensor_beside_a_text_has_a_fingerprint() -> None:
    def declared(n: int) -> Any:
        return T.Tensor[(n,), "int32"], T.StridedTensor[(n,), (1,), "int32"], T.Buffer((n,)), T.Ptr["int32"], f"a row of {n}"

    assert not _described(declared)[0].startswith("off")


def test_a_macro_beside_a_text_has_a_fingerprint() -> None:
    @T.macro
    def first(row: Any, name: str) -> Any:
        return row[0]

    assert not _described(lambda n: first(n, f"a row of {n}"))[0].startswith("off")
    for shows in (lambda: f"{first}", lambda: f"{first.function}", lambda: str([first.__wrapped__])):
        assert _described(shows)[0].startswith("off")


def test_a_type_that_an_annotation_names_makes_no_text() -> None:
    def helper(value: Any, dtype: str) -> Any:
        return value, dtype

    helper.__annotations__["value"] = T.PrimExpr
    assert not _described(lambda: helper(1, "int8"))[0].startswith("off")
    assert _described(lambda: f"{helper(1, 'int8')}")[0].startswith("off")


CALLS = (
    "tilelang.jit()", "tilelang.jit(f)", 'tilelang.jit(a=-x, b=x[1] + 2, c=(x, [2, *y]), d=g(1, k=2), e={f.a: "b", **x})',
    "tilelang.jit(lambda a, b=1: x)",
)  # fmt: skip
OTHER_USES = (
    "tilelang.jit", "[tilelang.jit, x][0]()", "(tilelang.jit, x)[0].compile()", "f(tilelang.jit)", "f(x, a=tilelang.jit)",
    "f(*tilelang.jit)", "tilelang.jit is x", "tilelang.jit if x else y", "(m := tilelang.jit)", "x[tilelang.jit]",
    "tilelang.jit[0](1)", "(lambda a=tilelang.jit: a)(1)", "{**tilelang.jit}", "-tilelang.jit", "tilelang.jit(1 if x else 2)",
)  # fmt: skip


@pytest.mark.parametrize(("expression", "use"), [(each, CALLED) for each in CALLS] + [(each, "") for each in OTHER_USES])
def test_a_value_that_is_called_at_once_is_told_from_one_that_goes_elsewhere(expression: str, use: str) -> None:
    code = compile(f"lambda: {expression}", "", "eval").co_consts[0]
    assert [read.use for read in code_reads(code).reads if read.chain == ("jit",)] == [use]


def test_decorators_are_calls() -> None:
    text = "def outer():\n @tilelang.jit\n def f(a, b=x, *, c: int = 1): return y\n @g\n @tilelang.jit(a=1)\n def h(): pass"
    assert {read.use for read in code_reads(compile(text, "", "exec").co_consts[0]).reads if read.chain == ("jit",)} == {CALLED}


def vector_length() -> int:
    return 128 // DataType("bfloat16").bits


def test_tvm_data_types_have_a_fingerprint() -> None:
    """Programs compute vector lengths with them; their methods read the type alone."""
    digest, _ = _described(vector_length)
    assert vector_length() == 8 and not digest.startswith("off"), digest


NOTES = ("PrimExpr", "Var", "IntImm", "PrimFunc", "expr.BinaryOpExpr", "Buffer")


def _helper_with(note: Any) -> Any:
    def helper(value: Any) -> Any:
        return value

    helper.__annotations__["value"] = note
    return lambda: helper(1)


@pytest.mark.parametrize("name", NOTES)
def test_classes_of_tvm_in_annotations_have_a_fingerprint(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers of programs take ``tirx.PrimExpr``; what this package adds to such classes, now or later, is no change."""
    importlib.import_module("tilelang.frontend.program_object")  # gives nodes a `__copy__`
    function = _helper_with(operator.attrgetter(name)(tirx))
    before, _ = _described(function)
    assert not before.startswith("off"), before
    base = next(base for base in tirx.PrimExpr.__mro__ if "__copy__" in vars(base))
    monkeypatch.delattr(base, "__copy__")
    assert _described(function)[0] == before


@pytest.mark.parametrize("member", ["__copy__", "dtype", "mine"])
def test_what_a_program_puts_into_a_class_of_tvm_counts(member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = _helper_with(tirx.PrimExpr)
    before, watch = _described(function)
    monkeypatch.setattr(tirx.PrimExpr, member, lambda expr: expr, raising=False)
    assert not watch.holds() and _described(function)[0] != before


def test_a_name_that_is_refused_does_not_keep_a_program_out_of_the_cache() -> None:
    assert not _described(with_refused_name)[0].startswith("off")
