"""Rewrites a kernel function's syntax tree so that running it traces it.

Only what Python does not let an object override is rewritten: control flow, assignments to names and subscripts, boolean
operators, chained comparisons, conditional expressions, subscript loads and a few builtins. Each becomes a call to a hook of
the same meaning (:mod:`tilelang.frontend.hooks`), which falls back to Python's own behaviour for ordinary values::

    x = a                   x = hook.assign(scope, hook.naming("x"), a)
    x += a                  x = hook.augment(scope, "x", x, "Add", a)
    A[i] = a                hook.store(a, A, i)
    s.v = a                 hook.store_attribute(a, s, "v")
    a + f(b)                hook.binary("Add", a, hook.mark(), f(b))      # what a reads is read before f changes it
    a and b                 hook.value_of_and_(lambda: a, lambda: b)      # hook.and_ where only its truth matters
    if a: x = 1             branch = hook.branch(scope, a)
    else: x = 2             if branch.enter_then(): x = ...; branch.close()
                            if branch.enter_else():
                                if branch.is_left(scope, "x"): x = branch.before(scope, "x")
                                x = ...; branch.close()
                            branch.finish()
                            if hook.is_stale(scope, "x"): x = hook.stale(scope, "x")
    for i in a: ...         for i in hook.loop(scope, a, ("i",), carried_names): ...
    while a: ...            for _ in hook.while_(scope, lambda: a, carried_names): ...
    with a as x: ...        with hook.context(a) as x: x = hook.bound(scope, "x", x); ...
    break                   if hook.break_(): break
    return a                result = a
                            if hook.returns(result, True): return result

A run-time branch enters both arms, a run-time loop gives one item, and a run-time ``break`` returns False, so that Python goes on
with the statements after it. Positions are kept, so tracebacks and spans show the user's source.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tilelang.code_texts import ByIdentity
from tilelang.errors import SourceUnavailableError
from tilelang.frontend.liveness import bound_by, bound_names, captured_names, carried_names, declared_names
from tilelang.frontend.name_hooks import METHODS
from tilelang.frontend.names import Outside
from tilelang.frontend.rewrite_names import HOOKS, SCOPE, NamesRewriter, may_act
from tilelang.frontend.source import FUTURE_ANNOTATIONS, source_lines
from tilelang.frontend.syntax import (
    arguments,
    complete,
    entered_loop,
    flags,
    has_walrus,
    leaves,
    locate,
    operands_of_condition,
    strings,
    while_test,
)
from tilelang.recursion import SYNTAX, recursion

OUTSIDE = "__tl_outside__"
_INNER = "__tl_inner__"
"""The name of a function while it is compiled: by its own name, its body would call the rewritten function, not the author's."""

_REPLACED_BUILTINS = frozenset("min max abs round pow divmod sum print range any all next hasattr getattr repr format".split())
_REPLACED_TYPES = frozenset("int float bool str set frozenset dict list tuple".split())
"""Builtin types: replaced only where they are called, as ``isinstance(x, int)`` means the type itself."""

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
}
"""Operators that TVM's expressions leave undefined, or compute wrongly, for some operands; and one that copies lists."""


def rewrite(function: Callable[..., Any], hooks: Any) -> Callable[..., Any]:
    """A function like ``function`` that reports to ``hooks`` while it runs; it shares globals, defaults and closure cells.

    Raises:
        SourceUnavailableError: Python does not know the function's source text.
        UnsupportedSyntaxError: the function uses a construct that has no meaning in a kernel.
    """
    code = _rewritten_code(ByIdentity(function.__code__))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[HOOKS] = types.CellType(hooks)
    cells[OUTSIDE] = types.CellType(Outside(function))
    closure = tuple(cells[name] for name in code.co_freevars)
    traced = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    traced.__kwdefaults__ = function.__kwdefaults__
    return traced


def declared_arguments(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that the function's body declares (``A: T.Tensor(...)``); none where the source is not known."""
    code = function.__code__
    try:
        declared = declared_names(_definition(code).body)
    except SourceUnavailableError:
        return frozenset()
    return frozenset(declared) & frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@lru_cache(maxsize=1024)
def _rewritten_code(key: ByIdentity) -> types.CodeType:
    with recursion(SYNTAX):
        return _compiled(key.code)


def _compiled(code: types.CodeType) -> types.CodeType:
    inner = _Rewriter(code).function(_definition(code))
    inner.name = _INNER
    # Compiled inside of a function whose parameters are its free variables: so Python makes them closure cells, not globals.
    outer = ast.FunctionDef(
        name="__outer__",
        args=arguments([*code.co_freevars, HOOKS, OUTSIDE]),
        body=[inner, ast.Return(ast.Name(inner.name, ast.Load()))],
        decorator_list=[],
        lineno=1,
        col_offset=0,
    )
    module = ast.fix_missing_locations(ast.Module([complete(outer)], []))
    # Annotations stay text where the author's module has them so: evaluated here, they would name things that are not in scope.
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True, flags=code.co_flags & FUTURE_ANNOTATIONS)
    outer_code = next(c for c in compiled.co_consts if isinstance(c, types.CodeType))
    inner_code = next(c for c in outer_code.co_consts if isinstance(c, types.CodeType) and c.co_name == _INNER)
    return inner_code.replace(co_name=code.co_name)


def _definition(code: types.CodeType) -> ast.FunctionDef:
    """The syntax tree of the function, at its true line and column."""
    lines, first = source_lines(code)
    # A header keeps the original indentation legal, and thereby every column true.
    indented = lines[0][:1].isspace()
    tree = ast.parse(("if True:\n" if indented else "") + "".join(lines))
    ast.increment_lineno(tree, first - (2 if indented else 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return node
    raise SourceUnavailableError(code.co_name, code.co_filename)


class _Rewriter(NamesRewriter):
    """Rewrites one function; see the module's docstring.

    Attributes:
        bound: the names that the function binds, which therefore are not Python's builtins.
        bound_in: statement of the author -> the names that it and the statements in it bind.
        captured: the names that functions in the function read.
        conditions: the ``and`` and ``or`` of which only the truth is used.
    """

    def __init__(self, code: types.CodeType):
        super().__init__(code.co_filename)
        self.bound: set[str] = set()
        self.bound_in: dict[ast.AST, set[str]] = {}
        self.captured: frozenset[str] = frozenset()
        self.conditions: set[ast.expr] = set()

    # Functions -------------------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The rewritten definition, without decorators, annotations and defaults (they were evaluated already)."""
        signature = node.args
        single = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
        names = [each.arg for each in (*single, signature.vararg, signature.kwarg) if each is not None]
        self.bound = set(names) | bound_names(node.body, self.bound_in)
        self.captured = captured_names(node)
        for argument in single:
            argument.annotation = None
        # The function's local names in a dictionary that hooks can look into: Python's own locals() is a copy.
        local = ast.Dict([ast.Constant(n) for n in names], [ast.Name(n, ast.Load()) for n in names])
        held = self.hook("names", local, ast.Name(OUTSIDE, ast.Load()), at=node)
        enter = locate(ast.Assign([ast.Name(SCOPE, ast.Store())], held), node)
        result = ast.FunctionDef(node.name, signature, [enter, *self.block(node.body)], [], None, None)
        # Placeholders: the compiled code must know which parameters have defaults. Their values are set on the new function.
        result.args.defaults = [locate(ast.Constant(None), node) for _ in signature.defaults]
        result.args.kw_defaults = [d and locate(ast.Constant(None), node) for d in signature.kw_defaults]
        return locate(complete(result), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        # A decorated inner function (a macro) is rewritten by its own decorator; a plain one runs as Python.
        self.keep_defaults(node.args)
        return [node, *self.bindings(bound_by(node), node)]

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.keep_defaults(node.args)
        node.body = self.visit(node.body)
        return node

    def keep_defaults(self, signature: ast.arguments) -> None:
        """Defaults of parameters hold what they are where the function is defined."""

        def kept(default: ast.expr | None) -> Any:
            return default and self.hook("keep", self.visit(default), at=default)

        signature.defaults = [*map(kept, signature.defaults)]
        signature.kw_defaults = [*map(kept, signature.kw_defaults)]

    def visit_Return(self, node: ast.Return) -> Any:
        value = self.item_read(self.visit(node.value)) if node.value else ast.Constant(None)
        # Computed first: the value may append statements, which come before the return.
        name = "__tl_result__"
        keep = ast.Assign([ast.Name(name, ast.Store())], value)
        leaves = self.hook("returns", ast.Name(name, ast.Load()), ast.Constant(node.value is not None), at=node)
        leave = ast.If(leaves, [ast.Return(ast.Name(name, ast.Load()))], [])
        return [locate(keep, node), locate(leave, node)]

    # Statements -------------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return node
        return locate(ast.Expr(self.hook("statement", self.visit(node.value), at=node)), node)

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.thunk(node.msg) if node.msg else ast.Constant(None)
        return locate(ast.Expr(self.hook("assert_", self.condition(node.test), message, at=node)), node)

    # Control flow ----------------------------------------------------------------------------------------------------

    def mark_stale_names(self, body: Iterable[ast.AST], node: ast.stmt) -> list[ast.stmt]:
        """Statements after the block ``body`` of ``node``: the names that it has assigned may have become unusable."""

        def mark(name: str) -> ast.stmt:
            now_stale = self.hook("stale", self.scope(), ast.Constant(name), at=node)
            test = self.hook("is_stale", self.scope(), ast.Constant(name), at=node)
            return locate(ast.If(test, [ast.Assign([ast.Name(name, ast.Store())], now_stale)], []), node)

        return [mark(name) for name in sorted(bound_names(body, self.bound_in))]

    def visit_For(self, node: ast.For) -> Any:
        if any(isinstance(part, (ast.Subscript, ast.Attribute)) for part in ast.walk(node.target)):
            name = f"__tl_item_{node.lineno}_{node.col_offset}__"
            node.body[:0] = [locate(ast.Assign([node.target], ast.Name(name, ast.Load())), node.target)]
            node.target = locate(ast.Name(name, ast.Store()), node.target)
        targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
        names = strings(t.id for t in targets if isinstance(t, ast.Name))
        carried = flags(carried_names(node, self.captured))
        loop = self.hook("loop", self.scope(), self.iterable(node.iter), names, carried, at=node.iter)
        return self.passes(node, node.target, loop)

    def passes(self, node: ast.For | ast.While, target: ast.expr, loop: ast.expr) -> list[ast.stmt]:
        """The loop ``node`` as a ``for`` over what the call of a hook, ``loop``, gives; and what follows it."""
        following = self.mark_stale_names([*node.body, *([node.test] if isinstance(node, ast.While) else [])], node)
        targets = self.bindings(bound_by(node), target, "loop_target")
        result = ast.For(target, loop, [*targets, *self.block(node.body)], [], None)
        if not leaves(node):
            return [locate(result, node), *following, *self.block(node.orelse)]
        if node.orelse:
            # A run-time loop is traced once, and no `break` of it is one of Python's: only a compile-time loop decides here.
            check = ast.Expr(self.hook("after_compile_time_loop", at=node.orelse[0]))
            scope = locate(ast.If(ast.Constant(True), node.orelse, []), node.orelse[0])
            result.orelse = [check, *self.block([scope])]
        return [locate(result, node), *following]

    def iterable(self, node: ast.expr) -> ast.expr:
        """What a ``for`` iterates over; ``range(...)`` is a loop of the kernel."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"):
            return self.visit(node)
        if "range" in self.bound:
            return self.visit(node)
        serial = ast.Attribute(ast.Name(HOOKS, ast.Load()), "serial_range", ast.Load())
        return locate(ast.Call(serial, [self.visit(a) for a in node.args], node.keywords), node)

    def visit_With(self, node: ast.With) -> Any:
        """``with`` statements; ``with T.While(test)`` is a ``while``, ``with T.serial(n) as i`` a ``for``.

        Several targets are unpacked by the hook, since a single index of a kernel is no sequence: ``with T.Kernel(n) as (bx,)``.
        """
        test = while_test(node)
        if test is not None:
            return self.visit_While(locate(ast.While(test, node.body, []), node))
        loop = entered_loop(node)
        if loop is not None:
            return self.visit_For(locate(loop, node))
        unpacked = self.bindings({item.optional_vars.id for item in node.items if isinstance(item.optional_vars, ast.Name)}, node)
        for item in node.items:
            target = item.optional_vars
            if target is not None and not isinstance(target, ast.Name):
                entered = f"__tl_with_{target.lineno}_{target.col_offset}__"
                made = self.assign(target, ast.Name(entered, ast.Load()), target)
                unpacked += made if isinstance(made, list) else [made]
                item.optional_vars = locate(ast.Name(entered, ast.Store()), target)
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = self.hook("context", item.context_expr, at=item.context_expr)
        node.body[:0] = unpacked
        return node

    def visit_While(self, node: ast.While) -> Any:
        carried, names = flags(carried_names(node, self.captured)), bound_names([node.test])
        definitions: list[ast.stmt] = []
        # `while True` is a loop of the kernel that a break ends; as a compile-time loop it would never end.
        if isinstance(node.test, ast.Constant) and node.test.value:
            loop = self.hook("forever", self.scope(), carried, at=node.test)
        else:
            self.conditions.update(operands_of_condition(node.test))
            test = self.thunk(node.test)
            if names:
                test, definitions = self.binding_function(names, test, node.test)
            loop = self.hook("while_", self.scope(), test, carried, at=node.test)
        return [*definitions, *self.passes(node, ast.Name("__tl_unused__", ast.Store()), loop)]

    def binding_function(self, names: set[str], thunk: ast.Lambda, at: ast.expr) -> tuple[ast.expr, list[ast.stmt]]:
        """A function like ``thunk`` whose ``:=`` bind names of the function around it; and the statements that define it."""
        name = f"__tl_test_{at.lineno}_{at.col_offset}__"
        body = [ast.Nonlocal(sorted(names)), ast.Return(thunk.body)]
        function = complete(ast.FunctionDef(name, arguments([]), body, [], None, None))
        # Python finds out from an assignment, even from one that never runs, that these are names of the function around it.
        local = ast.If(ast.Constant(False), [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in names], [])
        return locate(ast.Name(name, ast.Load()), at), [locate(local, at), locate(function, at)]

    def visit_If(self, node: ast.If) -> Any:
        # A name for each `if`: an inner one runs before the outer one is closed, and must not overwrite its token.
        token = f"__tl_if_{node.lineno}_{node.col_offset}__"
        following = self.mark_stale_names([*node.body, *node.orelse], node)
        load = ast.Name(token, ast.Load())
        begun = self.hook("branch", self.scope(), self.condition(node.test), at=node.test)
        begin = ast.Assign([ast.Name(token, ast.Store())], begun)

        def call(method: str, *args: ast.expr) -> ast.Call:
            return locate(ast.Call(ast.Attribute(load, method, ast.Load()), list(args), []), node.test)

        def restored(name: str) -> ast.stmt:
            """The second arm finds what the name held before the first one."""
            which = (self.scope(), ast.Constant(name))
            return ast.If(call("is_left", *which), [ast.Assign([ast.Name(name, ast.Store())], call("before", *which))], [])

        def arm(which: str, body: list[ast.stmt]) -> ast.If:
            return locate(ast.If(call(f"enter_{which}"), [*body, ast.Expr(call("close"))], []), node)

        found = [*map(restored, sorted(bound_names(node.body, self.bound_in)))] if node.orelse else []
        arms = [arm("then", self.block(node.body))]
        arms += [arm("else", [*found, *self.block(node.orelse)])] if node.orelse else []
        return [locate(begin, node), *arms, locate(ast.Expr(call("finish")), node), *following]

    def visit_Break(self, node: ast.Break) -> Any:
        return locate(ast.If(self.hook("break_", at=node), [ast.Break()], []), node)

    def visit_Continue(self, node: ast.Continue) -> Any:
        return locate(ast.If(self.hook("continue_", at=node), [ast.Continue()], []), node)

    # Expressions -----------------------------------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *others = node.values
        # An operand becomes a function below, and `:=` in a function binds a name of that function only.
        if any(map(has_walrus, others)):
            *deciding, last = map(self.visit, node.values)
            node.values = [*(self.hook("decided", value, at=value) for value in deciding), last]
            return node
        combined = "and_" if isinstance(node.op, ast.And) else "or_"
        name = combined if node in self.conditions else f"value_of_{combined}"
        # Operands are passed as functions: one must not run where those before it decide (`x is None or x.shape[0] > 1`).
        begin = self.hook("computed", self.visit(first), at=first) if has_walrus(first) else self.thunk(first)
        return self.hook(name, begin, *map(self.thunk, others), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return self.hook("not_", self.condition(node.operand), at=node)
        return self.generic_visit(node)

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters."""
        self.conditions.update(operands_of_condition(node))
        return self.visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.item_read(self.visit(node.value))
        node.value = self.hook("assign", self.scope(), ast.Constant(node.target.id), value, at=node)
        # Of a variable, what it holds now: a later pass of a comprehension may store to it.
        return self.hook("item", node, at=node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return self.hook("text", *map(self.text_part, node.values), at=node)

    def text_part(self, part: ast.expr) -> ast.expr:
        """A piece of an f-string."""
        if not isinstance(part, ast.FormattedValue):
            return part
        spec = part.format_spec or ast.Constant("")
        return self.hook("formatted", self.visit(part.value), ast.Constant(part.conversion), spec, at=part)

    def visit_Compare(self, node: ast.Compare) -> Any:
        # `x in {a, b}` compares, where a set would tell its items apart while it is traced.
        for position, item in enumerate(node.comparators):
            if isinstance(item, ast.Set) and isinstance(node.ops[position], (ast.In, ast.NotIn)):
                node.comparators[position] = locate(ast.Tuple(item.elts, ast.Load()), item)
        operators = ast.Tuple([ast.Constant(type(op).__name__) for op in node.ops], ast.Load())
        left, right, *others = map(self.visit, (node.left, *node.comparators))
        if any(map(may_act, others)) and not any(map(has_walrus, others)):
            skippable = [locate(ast.Lambda(arguments([]), other), other) for other in others]
            return self.hook("chain", operators, *self.in_order([left, right], node), *skippable, at=node)
        return self.hook("compare", operators, *self.in_order([left, right, *others], node), at=node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        # As of `and`: in a function of its own, `:=` would bind a name of that function.
        if has_walrus(node.body) or has_walrus(node.orelse):
            test = self.hook("decided", self.condition(node.test), at=node.test)
            return locate(ast.IfExp(test, self.visit(node.body), self.visit(node.orelse)), node)
        return self.hook("choose", self.condition(node.test), self.thunk(node.body), self.thunk(node.orelse), at=node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if may_act(node.right):
            operands = (node.left, self.hook("mark", at=node), node.right)
            return self.hook("binary", ast.Constant(type(node.op).__name__), *operands, at=node)
        if type(node.op) in _OPERATORS:
            return self.hook(_OPERATORS[type(node.op)], node.left, node.right, at=node)
        return node

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.elts = [*map(self.item_read, node.elts)]
            if not any(isinstance(item, ast.Starred) for item in node.elts):
                node.elts = self.in_order(node.elts, node)
        return node

    visit_List = visit_Tuple

    def visit_Starred(self, node: ast.Starred) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self.hook("items", node.value, at=node)
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        self.generic_visit(node)
        pairs = zip(node.keys, node.values)
        node.values = [self.item_read(value) if key else self.hook("items", value, at=value) for key, value in pairs]
        return self.hook("keyed", node, at=node)

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        self.generic_visit(node)
        node.value = self.item_read(node.value)
        return self.hook("keyed", node, at=node)

    def visit_Set(self, node: ast.Set | ast.SetComp) -> Any:
        self.generic_visit(node)
        return self.hook("keyed", node, at=node)

    visit_SetComp = visit_Set

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        self.generic_visit(node)
        node.elt = self.item_read(node.elt)
        return node

    visit_GeneratorExp = visit_ListComp

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return self.hook("load", self.visit(node.value), self.key(node.slice), at=node)

    def visit_Call(self, node: ast.Call) -> Any:
        callee = node.func
        self.generic_visit(node)
        # The language's functions take elements as places, too: `T.copy(A[0, 0], tile)`.
        is_of_language = isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name) and callee.value.id == "T"
        read = self.read_before if is_of_language else lambda operands: [*map(self.item_read, operands)]
        values = read([*node.args, *(keyword.value for keyword in node.keywords)])
        node.args = values[: len(node.args)]
        for keyword, value in zip(node.keywords, values[len(node.args) :]):
            keyword.value = value
        if not is_of_language and not any(isinstance(argument, ast.Starred) for argument in node.args):
            node.args = self.in_order(node.args, node)
        if isinstance(callee, ast.Name) and callee.id in _REPLACED_TYPES and callee.id not in self.bound:
            node.func = self.replaced(callee)
        if isinstance(callee, ast.Attribute) and callee.attr in METHODS:
            node.func = self.hook("method", callee.value, ast.Constant(callee.attr), at=callee)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        replaced = node.id in _REPLACED_BUILTINS and node.id not in self.bound and isinstance(node.ctx, ast.Load)
        return self.replaced(node) if replaced else node

    def replaced(self, node: ast.Name) -> ast.expr:
        """A builtin's name as the hook that extends it."""
        load = locate(ast.Name(node.id, ast.Load()), node)
        return self.hook("builtin", ast.Constant(node.id), load, at=node)
