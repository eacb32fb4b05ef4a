"""Runs the rewritten kernels of examples and of ``testing/programs``: each launch in the interpreter, and then on every target.

The program's own check drives it: it makes the arguments and launches. What it asserts does not count, since its kernels were
rewritten; each target is compared with the interpreter.
"""

from __future__ import annotations

import contextlib
import io
import pkgutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import tilelang
from testing import programs
from testing.fuzz.execute import INTERPRETER, attempted, module_of, target_of
from testing.fuzz.outcome import BAD, CRASH, DIFFERENT, REFUSED, RIGHT, Outcome
from testing.fuzz.rewrites import rewritten
from testing.python.examples import test_examples
from tilelang import env
from tilelang.errors import TileLangError
from tilelang.execution import Executor
from tilelang.jit import compiler, interpreted
from tilelang.jit.kernel import JITKernel

NO_MEANING = "no meaning"
"""The interpreter finds a fault, or the program is refused before it runs: there is nothing to compare."""
NAMES_THREADS = "names threads"
"""What a CPU target, which has none, does not run; a part of its message, too."""
UNSTABLE = "unstable"
"""Rounding alone may change the result: inputs that differ in their last bits do."""
_LAUNCHES = 4
"""Launches of a program that are compared; the rest of it says little more."""


def kernels() -> list[str]:
    """The names of all that can be rewritten."""
    own = [module.name for module in pkgutil.iter_modules(programs.__path__)]
    return sorted([*own, *(f"example_{name}" for name in test_examples.SMALL)])


def text_of(name: str) -> str:
    """The module that a name stands for."""
    example = name.removeprefix("example_")
    path = test_examples.EXAMPLES / example / f"{name}.py" if example != name else Path(programs.__path__[0]) / f"{name}.py"
    return path.read_text()


def drawn(seed: int) -> tuple[str, str]:
    """The name of the kernels that a seed rewrites, and the text of their module."""
    names = kernels()
    name = names[seed % len(names)]
    text, changes = rewritten(text_of(name), seed)
    return name, "\n".join((f'"""{name}, seed {seed}', *changes, '"""', text))


def judge(seed: int, targets: Sequence[str]) -> tuple[dict[str, Outcome], str]:
    """The outcome of the rewritten kernels of a seed on each target, and their text.

    Only the interpreter's outcome is given where there is nothing to compare.
    """
    name, text = drawn(seed)
    return run(name, text, targets), text


def run(name: str, text: str, targets: Sequence[str]) -> dict[str, Outcome]:
    """The outcome of a program with the check of ``name`` on each target."""
    observed = _Launches(targets, "return_prev=True" not in text)
    with _filled_memory(), mock.patch.object(compiler, "interpreted", observed.kernel), contextlib.redirect_stdout(io.StringIO()):
        try:
            with tilelang.interpret(), module_of(text) as module:
                _check(name, module)
        except _Enough:
            pass
        except (TileLangError, NotImplementedError) as error:  # torch cannot fill tensors of every narrow type
            return {INTERPRETER: Outcome(NO_MEANING, str(error))}
        except Exception as error:  # noqa: BLE001  (an assertion of the program, or what its changes have made of its Python)
            if not observed.outcomes:
                own = traceback.extract_tb(error.__traceback__)[-1].filename.startswith(str(Path(tilelang.__file__).parent))
                return {INTERPRETER: Outcome(CRASH if own else NO_MEANING, f"{type(error).__name__}: {error}")}
    return observed.outcomes


@contextlib.contextmanager
def _filled_memory() -> Iterator[None]:
    """Elements of an output that no target writes are equal: new tensors are filled."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _check(name: str, module: Any) -> None:
    torch.manual_seed(0)
    example = name.removeprefix("example_")
    if example == name:
        module.check(**module.SMALL)
    else:
        module.main(**test_examples.SMALL[example])


class _Enough(BaseException):
    """Raised where further launches would show nothing new, to end the program."""


@dataclass
class _Launches:
    """Compares the launches of a program.

    Attributes:
        targets: what is compared with the interpreter.
        ordered: whether results are comparable: what atomic operations return depends on their order.
        outcomes: of each target: the first failure, or that it was right.
        count: launches so far.
    """

    targets: Sequence[str]
    ordered: bool
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    count: int = 0

    def kernel(self, func: Any, request: Any, metadata: Any = None) -> Any:
        """A kernel that runs in the interpreter and then on every target; stands for ``tilelang.jit.interpreted``."""
        kernel = interpreted.interpreted(func, request, metadata)
        executor = kernel.executor
        compared = Executor(executor.artifact, executor.backend, self._compared(func, request, executor.call))
        return JITKernel(kernel.entry, executor=compared)

    def _compared(self, func: Any, request: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            before = _copied(args, kwargs)
            returned = call(*args, **kwargs)
            expected = list(_tensors(args, kwargs, returned))
            for target in self.targets:
                outcome = self._outcome(func, request, target, *_copied(*before), expected)
                if outcome.status == DIFFERENT and not _is_stable(call, before, expected):
                    outcome = Outcome(UNSTABLE)
                if outcome.status != RIGHT or target not in self.outcomes:
                    self.outcomes[target] = outcome
            self.count += 1
            if self.count == _LAUNCHES or any(outcome.status in BAD for outcome in self.outcomes.values()):
                raise _Enough
            return returned

        return launch

    def _outcome(self, func: Any, request: Any, target: str, args: Any, kwargs: Any, expected: list[torch.Tensor]) -> Outcome:
        own = func.attrs and "tl.out_idx" in func.attrs
        out_idx = None if own or not request.out_idx else list(request.out_idx)

        def found() -> list[torch.Tensor]:
            kernel = tilelang.compile(func, out_idx, target=target_of(target), pass_configs=dict(request.pass_configs) or None)
            with tilelang.simulator(strict=True, workers=1):
                return list(_tensors(args, kwargs, kernel(*args, **kwargs)))

        with env.overridden("TILELANG_INTERPRET", "0"):
            outcome, tensors = attempted(found)
        if outcome.status == REFUSED and NAMES_THREADS in outcome.message:
            return Outcome(NAMES_THREADS)
        wrong = [number for number, (ours, wanted) in enumerate(zip(tensors, expected)) if not _is_close(ours, wanted)]
        return Outcome(DIFFERENT, f"tensors {wrong} of a launch") if wrong and self.ordered else outcome


def _is_stable(call: Callable[..., Any], before: tuple[list[Any], dict[str, Any]], expected: list[torch.Tensor]) -> bool:
    """Whether the interpreter gives the same for inputs that differ in their last bits: rounding explains no difference then."""
    args, kwargs = _copied(*before)
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.dtype in _TOLERANCE:
            value.mul_(1 + 4 * torch.finfo(value.dtype).eps * torch.randint(-1, 2, value.shape))
    found = list(_tensors(args, kwargs, call(*args, **kwargs)))
    return all(map(_is_close, found, expected))


def _tensors(args: Sequence[Any], kwargs: dict[str, Any], returned: Any) -> Iterator[torch.Tensor]:
    several = returned if isinstance(returned, (list, tuple)) else [returned]
    yield from (value for value in (*args, *kwargs.values(), *several) if isinstance(value, torch.Tensor))


def _copied(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return [_copy(value) for value in args], {name: _copy(value) for name, value in kwargs.items()}


def _copy(value: Any) -> Any:
    """A tensor with the same strides, in memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    memory = value.detach().untyped_storage().clone()
    return torch.empty(0, dtype=value.dtype).set_(memory, value.storage_offset(), value.shape, value.stride())


_TOLERANCE = {torch.float64: 1e-4, torch.float32: 5e-3}
"""Of the largest value of a tensor. Sums in another order, and narrow types between, differ; a wrong element differs more."""


def _is_close(ours: torch.Tensor, wanted: torch.Tensor) -> bool:
    if not wanted.dtype.is_floating_point:
        return torch.equal(ours, wanted)
    tolerance = _TOLERANCE.get(wanted.dtype, 4e-2)
    ours, wanted = ours.double(), wanted.double()
    finite = wanted[wanted.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    return torch.allclose(ours, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
