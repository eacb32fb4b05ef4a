"""Runs one program on one target."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import tilelang
from testing.fuzz import dtypes, ends, toolchain
from testing.fuzz.outcome import CRASH, DIFFERENT, FINDING, INTERNAL, LIMIT, REFUSED, RIGHT, Outcome
from testing.fuzz.tree import Program, Tensor
from tilelang import interpreter
from tilelang.errors import (
    DeviceCompileError,
    LayoutProofError,
    PassFailedError,
    SharedMemoryError,
    SimulatorError,
    TileLangError,
)
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform import pipeline
from tilelang.transform.config import PassConfigKey

TARGETS = ("cpu", "c", "sm_80", "sm_90a")
CPU = ("cpu", "c")
"""Targets whose blocks have no threads."""
INTERPRETER = "interpret"
_FOLDER = tempfile.TemporaryDirectory(prefix="tilelang-fuzz-")


@contextlib.contextmanager
def module_of(text: str) -> Iterator[Any]:
    """The module of a text, while it lasts. The text is written to a file, since tracing reads the source of functions."""
    name = f"program_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = Path(_FOLDER.name) / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # ``inspect`` looks there first
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


def traced(program: Program) -> Any:
    """The traced program that all targets compile."""
    with module_of(str(program)) as module:
        return module.build()


def arguments(program: Program) -> list[torch.Tensor]:
    """Fresh input tensors, equal for every target."""
    return [_argument(program, tensor) for tensor in program.used]


def _argument(program: Program, tensor: Tensor) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(f"{program.name} {tensor.name}".encode()).digest()[:4], "big")
    generator = torch.Generator().manual_seed(seed)
    shape = program.shape(tensor)
    whole = (*shape[:-2], shape[-1], shape[-2]) if tensor.turned else (*shape[:-1], shape[-1] + tensor.pad)
    if tensor.ends and tensor.role == "in":
        return ends.tensor(tensor.dtype, shape, generator)
    if tensor.digits:
        values = _numbers_of(tensor, whole, generator)
    elif tensor.role == "in":
        values = torch.randint(tensor.low, tensor.high + 1, whole, generator=generator)
    else:
        values = torch.zeros(whole, dtype=torch.int64)
    found = dtypes.tensor_of(values, tensor.dtype)
    return found.mT if tensor.turned else found[..., : shape[-1]] if tensor.pad else found


def _numbers_of(tensor: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random integers made of the hexadecimal digits of ``Tensor.digits``, in two's complement."""
    width = dtypes.bits(tensor.dtype)
    digits = torch.tensor([int(digit, 16) for digit in tensor.digits])
    chosen = digits[torch.randint(0, len(digits), (*shape, width // 4), generator=generator)]
    number = (chosen << torch.arange(0, width, 4)).sum(-1)
    return torch.where(number >= 1 << (width - 1), number - (1 << width), number)


def _numbers(program: Program, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The values of the arguments of a call after it."""
    found = []
    for tensor, of in zip(tensors, program.used):
        values = dtypes.numbers(tensor, of.dtype, program.shape(of)[-1])
        found.append(dtypes.signs(values) if of.ends else values)
    return found


def target_of(name: str) -> Any:
    """The value of ``target=`` for ``tilelang.compile``."""
    return {"kind": "cuda", "arch": name} if name.startswith("sm_") else name


def interpreted(program: Program) -> tuple[Outcome, Any, list[torch.Tensor]]:
    """Runs a program in the interpreter. Gives the outcome, the traced program, and the resulting tensors.

    A finding means that the program has undefined behaviour.
    """
    try:
        tensors = arguments(program)
        func = traced(program)
        given = [*tensors, *program.numbers]
        workspaces = [_argument(program, tensor) for tensor in program.workspaces]
        fresh = range(len(given), len(given) + len(workspaces))
        manual = bool(program.configs.get(PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC.value))
        findings = interpreter.Program(func, manual).run(*given, *workspaces, fresh=fresh)
    except TileLangError as error:
        return Outcome(REFUSED, str(error)), None, []
    except Exception as error:
        return Outcome(CRASH, f"{type(error).__name__}: {error}"), None, []
    if findings:
        return Outcome(FINDING, str(findings[0])), func, []
    return Outcome(RIGHT), func, _numbers(program, tensors)


def lowered(program: Program, func: Any, target: str) -> list[tuple[str, Any]]:
    """The text and the launch of each kernel on a CUDA target; each step's result is checked.

    Raises:
        TileLangError: where the program is refused.
        AssertionError: where a step's result is not what the next one takes.
    """
    from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of

    request = CompileRequest(parse_target(target_of(target)), pass_configs=program.configs)
    result = pipeline.run(PIPELINE, func, CudaContext(request, options_of(request)), verify=True)
    return [(kernel.text, kernel.launch) for kernel in result.value.kernels]


def run(program: Program, func: Any, target: str) -> list[torch.Tensor]:
    """The tensors after a run of ``func``, which the program builds, as numbers; thorough programs check every step, too.

    Raises:
        TileLangError: where the program is refused, or the simulator finds a fault.
    """
    tensors = arguments(program)
    if program.thorough and target not in CPU:
        lowered(program, func, target)
    options = toolchain.options(target, program.thorough)
    with toolchain.every_edge_cut():
        kernel = tilelang.compile(func, target=target_of(target), pass_configs=program.configs or None, **options)
    with tilelang.simulator(strict=True, workers=1):
        kernel(*tensors, *program.numbers)
    return _numbers(program, tensors)


def attempt(program: Program, func: Any, target: str) -> tuple[Outcome, list[torch.Tensor]]:
    """The outcome of a run of ``func``, which ``program`` builds, and the tensors if it came to an end."""
    return attempted(lambda: run(program, func, target))


def attempted(run: Callable[[], list[torch.Tensor]]) -> tuple[Outcome, list[torch.Tensor]]:
    """The outcome of compiling and calling a kernel, and the tensors that it gives if it came to an end."""
    try:
        return Outcome(RIGHT), run()
    except (SharedMemoryError, DeviceCompileError) as error:
        too_large = isinstance(error, SharedMemoryError) or "Register allocation failed" in error.log
        return Outcome(LIMIT if too_large else REFUSED, str(error)), []
    except SimulatorError as error:
        return Outcome(FINDING, str(error)), []
    except (PassFailedError, LayoutProofError) as error:
        return Outcome(INTERNAL, str(error)), []
    except TileLangError as error:
        return Outcome(REFUSED, str(error)), []
    except Exception as error:  # any other exception is a defect, too
        return Outcome(CRASH, f"{type(error).__name__}: {error}"), []


def compared(outcome: Outcome, found: list[torch.Tensor], expected: list[torch.Tensor], program: Program) -> Outcome:
    """The outcome after a comparison with the expected tensors."""
    if outcome.status != RIGHT:
        return outcome
    wrong = [
        f"{of.name}: {int((ours != wanted).sum())} of {wanted.numel()} elements"
        for of, ours, wanted in zip(program.used, found, expected) if not torch.equal(ours, wanted)
    ]  # fmt: skip
    return Outcome(DIFFERENT, ", ".join(wrong)) if wrong else outcome
