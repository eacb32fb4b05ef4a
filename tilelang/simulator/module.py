"""Loading PTX and launching its kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.errors import PtxError, SimulatorArgumentError, SimulatorError
from tilelang.lib.signals import SignalWatch
from tilelang.simulator import native
from tilelang.simulator.arguments import Parameter, pack_arguments
from tilelang.simulator.checks import check_bits
from tilelang.simulator.report import Report


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel of a module.

    Attributes:
        name: its name in the PTX.
        parameters: what it takes.
        static_shared_bytes: shared memory it declares itself.
    """

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    static_shared_bytes: int
    _module: Any

    def launch(
        self,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        args: Sequence[Any],
        cluster: Sequence[int] | int = (1, 1, 1),
        shared_bytes: int = 0,
        checks: str | Iterable[str] = "all",
        seed: int = 0,
        *,
        strict: bool = False,
        counters: bool = True,
        workers: int = 0,
        max_instructions: int = 0,
    ) -> Report:
        """Runs the kernel to its end, or to a finding that ends it.

        Args:
            grid: blocks along x, y, z.
            block: threads along x, y, z.
            args: one per parameter: CPU tensors (their memory is read and written in place), ints, floats,
                :class:`~tilelang.simulator.TensorMap`, or ``bytes`` for a parameter passed by value.
            cluster: blocks per cluster along x, y, z.
            shared_bytes: dynamic shared memory.
            checks: ``"all"``, ``"none"`` or names of :data:`tilelang.simulator.checks.CHECKS`.
            seed: of the schedule and of the order in which asynchronous operations complete.
            strict: raise :class:`~tilelang.errors.SimulatorError` when something is found.
            counters: whether to count (counting costs time).
            workers: OS threads the blocks are spread over; 0: one per core.
            max_instructions: warp instructions after which a cluster is given up as stuck; 0: no limit.

        Returns:
            The findings and counters of the launch.

        Raises:
            SimulatorArgumentError: sizes or arguments that the kernel cannot be launched with.
            SimulatorError: findings, with ``strict``.
            KeyboardInterrupt: or whatever else the handler of a signal raises while the kernel runs.
        """
        packed = pack_arguments(self.name, self.parameters, self.parameter_bytes, args)
        sizes = [*_triple("grid", grid), *_triple("block", block), *_triple("cluster", cluster), int(shared_bytes)]
        watch = SignalWatch()
        try:
            text = native.function("launch")(
                self._module, self.name, sizes, packed.data, packed.allocations, packed.names, check_bits(checks), counters,
                int(seed) & 0x7FFFFFFFFFFFFFFF, int(workers), int(max_instructions), watch,
            )  # fmt: skip
        except ValueError as error:
            raise watch.error or SimulatorArgumentError(str(error)) from None
        report = Report.from_json(str(text))
        if strict and report.findings:
            raise SimulatorError(report.findings)
        return report


class Module:
    """Loaded PTX."""

    def __init__(self, handle: Any):
        self._handle = handle
        self._kernels = {item["name"]: item for item in json.loads(str(native.function("describe")(handle)))}

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(self._kernels)

    def get_function(self, name: str) -> Function:
        """The kernel of that name.

        Raises:
            SimulatorArgumentError: there is none.
        """
        if name not in self._kernels:
            raise SimulatorArgumentError(f"the module has no kernel {name!r}", f"it has {', '.join(self._kernels) or 'none'}")
        item = self._kernels[name]
        parameters = tuple(Parameter(**parameter) for parameter in item["parameters"])
        return Function(name, parameters, item["parameter_bytes"], item["static_shared_bytes"], self._handle)


def load(ptx: str) -> Module:
    """Parses and decodes PTX text.

    Raises:
        PtxError: malformed text, or an instruction the simulator does not know, with the line.
        SimulatorUnavailableError: the native library is missing.
    """
    try:
        return Module(native.function("load_module")(ptx))
    except ValueError as error:
        raise PtxError(str(error)) from None


def _triple(what: str, value: Sequence[int] | int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    if not 1 <= len(values) <= 3:
        raise SimulatorArgumentError(f"{what} must have 1 to 3 extents, got {len(values)}")
    return [int(v) for v in values] + [1] * (3 - len(values))
