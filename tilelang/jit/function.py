"""``@tilelang.jit``: a factory of kernels, or an eager function that is one.

Both are looked up before anything is traced. A call whose function, reachable helpers, globals, closure and arguments are what
they were gives the remembered kernel after a check by identity; in a new process the source key finds it on disk. Only a miss
imports the front end and the compiler.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from tilelang.cache.keys.source_key import FunctionTracker
from tilelang.errors import DeclarationError, OptionError, RunTimeValueError, TileLangError, concise, first_line
from tilelang.ignored import ignored
from tilelang.jit.kernel import JITKernel, misplaced_call
from tilelang.jit.lookup import UNKEYED, Lookup, caching, compiled, from_source, say_off
from tilelang.jit.options import CompileOptions
from tilelang.jit.traced import TracedCall, check_in_force, is_traced
from tilelang.keywords import near_keywords
from tilelang.target import enclosing

if TYPE_CHECKING:
    from tilelang.ir import nodes as ir
    from tilelang.jit.eager import EagerFunction

_P = ParamSpec("_P")
_R = TypeVar("_R")


class JitFunction(Generic[_P, _R]):
    """A function decorated with ``@tilelang.jit``.

    It has the parameters of that function. A call of a factory gives a :class:`~tilelang.JITKernel`; a call of an eager function
    gives what the function returns.

    Args:
        function: a factory that returns a traced program, or an eager program.
        options: keyword arguments of :func:`~tilelang.jit.options.resolve_options`.
        mode: ``"factory"``, ``"eager"``, or ``"auto"`` to tell by what the function uses.
    """

    def __init__(self, function: FunctionType, options: Mapping[str, Any], mode: str = "auto"):
        functools.update_wrapper(self, function)
        if function.__code__.co_filename.startswith("<"):  # not asked of files, as the warm path does without the front end
            from tilelang.frontend.source import remember

            remember(function.__code__)
        self.function = function
        self.options = dict(options)
        self.is_eager = _is_eager(function) if mode == "auto" else mode == "eager"
        self._lookup = Lookup(function, options)
        self._eager = _eager(self._lookup) if self.is_eager else None
        self._repeat: Callable[[tuple[Any, ...], dict[Any, Any]], Any] | None = None
        self._is_traced: Callable[[], bool] = is_traced
        self._in_graph = TracedCall(self)

    __tilelang_fingerprint__ = ("_lookup", "_eager", "_repeat", "_is_traced", "_in_graph")

    def __reduce__(self) -> str:
        from tilelang.jit.portable import by_name

        return by_name(self)

    def __deepcopy__(self, memo: Any) -> JitFunction[_P, _R]:
        """The function itself, as of any function."""
        return self

    def __class_getitem__(cls, parameters: Any) -> type:
        """``JITImpl[P, R]`` in annotations is the class."""
        return cls

    @property
    def func(self) -> FunctionType:
        """The function under the decorator."""
        return self.function

    @property
    def signature(self) -> inspect.Signature:
        """The parameters of the function under the decorator."""
        return inspect.signature(self.function)

    def with_pass_configs(self, pass_configs: Mapping[Any, Any]) -> JitFunction[_P, _R]:
        """The function compiled with these pass configurations over its own."""
        merged: dict[Any, Any] = {**(self.options.get("pass_configs") or {}), **pass_configs}
        return self.with_options({"pass_configs": merged})

    def with_options(self, options: Mapping[str, Any]) -> JitFunction[_P, _R]:
        """The function under these options over its own."""
        return JitFunction(self.function, {**self.options, **options}, "eager" if self.is_eager else "factory")

    # Calling ---------------------------------------------------------------------------------------------------------

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Of a factory, the kernel for these arguments; of an eager function, what the kernel returns for them."""
        is_traced = self._is_traced  # a call through a variable is a third cheaper than through the object
        if is_traced():
            return self._in_graph(args, kwargs)
        repeat = self._repeat
        if repeat is not None:
            kernel = repeat(args, kwargs)
            if kernel is not None:
                return kernel
        try:
            result: Any = self._kernel(args, kwargs) if self._eager is None else self._eager.run(args, kwargs)
        except TileLangError as error:
            raise concise((self.is_eager and misplaced_call(self.function.__name__)) or error) from None
        self._is_traced = check_in_force()  # after the kernel was made or found, which may be what loads torch
        return result

    def __getitem__(self, grid: Any) -> NoReturn:
        """An error: ``function[grid](...)`` is how other languages launch a kernel."""
        raise DeclarationError(
            f"{self.function.__name__} is called without a grid in brackets: its program has the grid",
            hint="with T.Kernel(gx, gy, threads=128) as (bx, by): ...",
        )

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, without calling it.

        An eager function takes its compile-time arguments, and either example tensors or the sizes of ``T.const`` by name.
        """
        try:
            return self._kernel(args, kwargs) if self._eager is None else self._eager.compile(args, kwargs)
        except TileLangError as error:
            raise concise(error) from None

    def get_kernel_source(self, *args: Any, kernel_only: bool = True, **kwargs: Any) -> str:
        """The generated device code for these arguments.

        Args:
            args, kwargs: as for :meth:`compile`.
            kernel_only: False appends the host code.

        Returns:
            CUDA C++ or C.
        """
        return self.compile(*args, **kwargs).get_kernel_source(kernel_only)

    def _kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        options, tracker = self.resolved()
        if not caching():
            return compiled(functools.partial(self.get_tir, *args, **kwargs), options, UNKEYED)[0]
        kernel = tracker.recall(args, kwargs)
        if kernel is None:
            kernel = self._miss(args, kwargs, options, tracker)
        self._repeat = self._lookup.repeater(tracker)
        return kernel

    def _miss(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: CompileOptions, tracker: FunctionTracker
    ) -> JITKernel:
        source = tracker.source_key(args, kwargs)
        make = functools.partial(self.get_tir, *args, **kwargs)
        kernel = from_source(source, options, lambda: self.resolved()[1].source_key(args, kwargs), make)
        if kernel is None:
            kernel, source = compiled(make, options, source)
        tracker.remember(args, kwargs, kernel, source)
        if source.reason:
            say_off(source)
        return kernel

    def get_tir(self, *args: Any, **kwargs: Any) -> Any:
        """The traced program for these arguments.

        Raises:
            DeclarationError: the function does not return a traced program.
        """
        if self._eager is not None:
            return self._eager.program(args, kwargs)
        program = self._made(args, kwargs)
        from tilelang.frontend.program_object import is_program

        if not is_program(program):
            raise DeclarationError(
                f"{self.function.__name__}() returned {type(program).__name__}, not a program",
                hint="return the function that @T.prim_func decorates, or write an eager function (T.const, T.empty, return)",
            )
        return program

    def _made(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls the factory; a failure on a tensor argument is most likely a call of the factory in place of the kernel.

        A program's annotations are evaluated here, where the program is defined, and not while it is traced.
        """
        try:
            return self.function(*args, **kwargs)
        except Exception as error:  # the user's own code runs here and may raise anything
            if not any(hasattr(value, "data_ptr") for value in (*args, *kwargs.values())):
                _locate(error)
                raise
            name = self.function.__name__
            raise RunTimeValueError(
                f"{name} makes kernels from compile-time values, and the call gives it a tensor ({first_line(error)})",
                hint=f"kernel = {name}(sizes, ...); kernel(tensors, ...)",
            ) from None

    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Kernels for many argument sets, compiled by several threads.

        Args:
            configs: the argument sets, each a dict of keywords or a tuple of positions.
            num_workers: threads; by default one a core.
            ignore_error: give None for a set that cannot be compiled, instead of raising.

        Returns:
            The kernels, in the order of ``configs``.

        Raises:
            CompileError: the first set that cannot be compiled, unless ``ignore_error``.
        """
        from tilelang.jit.compiler import compile_in_parallel

        function = self.pinned()  # the threads are in the scope of no target
        try:
            return compile_in_parallel([_job(function, config) for config in configs], num_workers, ignore_error)
        except TileLangError as error:
            raise concise(error) from None

    # Options ---------------------------------------------------------------------------------------------------------

    def resolved(self) -> tuple[CompileOptions, FunctionTracker]:
        """The options in force, and the tracker of kernels under them."""
        return self._lookup.resolved()

    def pinned(self) -> JitFunction[_P, _R]:
        """This function for the target that is in force now, wherever it will be called: in another thread, or later."""
        target = enclosing.current() if self._lookup.follows else None
        if target is None:
            return self
        return self.with_options({"target": target})

    def clear_memory(self) -> None:
        """Forgets the kernels of this process."""
        self._lookup.clear()
        self._repeat = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _eager(lookup: Lookup) -> EagerFunction:
    from tilelang.jit.eager import EagerFunction  # factories need none of it

    return EagerFunction(lookup)


def _locate(error: Exception) -> None:
    """Gives an error of this package that has no location the line of the user's code that led to it."""
    if isinstance(error, TileLangError):
        from tilelang.ir.span import traceback_location

        error.at(traceback_location(error))


def _job(function: JitFunction[..., Any], config: Any) -> Callable[[], JITKernel]:
    if isinstance(config, Mapping):
        return lambda: function.compile(**config)
    if isinstance(config, str) or not isinstance(config, Iterable):
        raise OptionError(
            f"par_compile takes a tuple or dict of arguments for each kernel, got {config!r}", hint=f"[({config!r},), ...]"
        )
    return lambda: function.compile(*config)


def _is_eager(function: Callable[..., Any]) -> bool:
    """Whether a function is a kernel itself, and not a factory that makes one with ``@T.prim_func``."""
    # By names that the code uses, without running it: a factory defines a program by @T.prim_func, an eager function opens a
    # kernel.
    names = set(function.__code__.co_names)
    if "prim_func" in names:
        return False
    return bool(names & {"Kernel", "ClusterKernel", "const", "empty"}) or _declares_tensors(function)


def _declares_tensors(function: Callable[..., Any]) -> bool:
    from tilelang.frontend.rewrite import declared_arguments
    from tilelang.frontend.specs import TensorSpec

    annotated = any(isinstance(p.annotation, TensorSpec) for p in inspect.signature(function).parameters.values())
    return annotated or bool(declared_arguments(function))


_MODES = {"auto": "auto", "lazy": "factory", "eager": "eager"}


class WithOptions(Protocol):
    """What ``@tilelang.jit`` may stand above besides a function: an autotuned function."""

    def with_jit(self, options: Mapping[str, Any], mode: str) -> Any:
        """The same over a function of these options."""
        ...


_Tuned = TypeVar("_Tuned", bound=WithOptions)


class JitDecorator(Protocol):
    """``@tilelang.jit(...)``: what decorates a function."""

    @overload
    def __call__(self, func: _Tuned, /) -> _Tuned: ...
    @overload
    def __call__(self, func: Callable[_P, ir.PrimFunc], /) -> JitFunction[_P, JITKernel]: ...
    @overload
    def __call__(self, func: Callable[_P, _R], /) -> JitFunction[_P, _R]: ...


@overload
def jit(func: _Tuned) -> _Tuned: ...
@overload
def jit(func: Callable[_P, ir.PrimFunc]) -> JitFunction[_P, JITKernel]: ...
@overload
def jit(func: Callable[_P, _R]) -> JitFunction[_P, _R]: ...
@overload
def jit(
    func: None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    debug_root_path: str | None = None,
    mode: str = "auto",
) -> JitDecorator: ...
@near_keywords
def jit(
    func: Callable[..., Any] | WithOptions | None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    debug_root_path: str | None = None,
    mode: str = "auto",
) -> Any:
    """Decorator: a factory of programs becomes a factory of kernels, an eager program a function of tensors.

    Args:
        func: the function, where the decorator stands without parentheses.
        out_idx: positions of the parameters that a call allocates and returns, in this order; negative counts from the end.
        target_host: has no effect, as the host is the machine that compiles; a value warns.
        target: ``"auto"`` (that of an enclosing ``with tvm.target.Target(...):``, else CUDA where there is a device, else the
            CPU), ``"cpu"``, ``"c"``, ``"cuda"``, or a dict with an arch.
        execution_backend: ``"auto"``, ``"tvm_ffi"``, ``"ctypes"``, ``"cython"``, ``"torch"`` or ``"nvrtc"``.
        verbose: print where kernels come from.
        pass_configs: values by ``tilelang.PassConfigKey``.
        compile_flags: for the toolchain.
        debug_root_path: has no effect, as every source is in the cache entry; a value warns.
        mode: ``"auto"``, ``"lazy"`` (factory) or ``"eager"``.

    Returns:
        JitFunction: callable like the function that it decorates.

    Raises:
        OptionError: there is no such mode.
    """
    ignored("jit", debug_root_path=debug_root_path)
    options = {
        "out_idx": out_idx,
        "target": target,
        "target_host": target_host,
        "execution_backend": execution_backend,
        "pass_configs": pass_configs,
        "compile_flags": compile_flags,
        "verbose": verbose,
    }
    if mode not in _MODES:
        raise OptionError(f"mode={mode!r} is none of {', '.join(_MODES)}")
    mode = _MODES[mode]
    if func is None:
        return functools.partial(_decorated, options=options, mode=mode)
    return _decorated(func, options, mode)


def _decorated(func: Any, options: Mapping[str, Any], mode: str) -> Any:
    """Applies the decorator to a function, an autotuned function, or a traced program."""
    if inspect.isfunction(func):
        return JitFunction[..., Any](func, options, mode)
    if hasattr(func, "with_jit"):
        return func.with_jit(options, mode)
    from tilelang.jit.compiler import compile

    return compile(func, **options)
