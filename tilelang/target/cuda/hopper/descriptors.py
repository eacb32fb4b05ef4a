"""The tensor maps of a kernel, which describe the tensors that the tensor memory accelerator moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.target.cuda.hopper import tma


@dataclass(eq=False)
class Descriptors:
    """The tensor maps of a kernel, each description once."""

    specs: list[Any] = field(default_factory=list)

    def take(self, plan: tma.TmaPlan) -> tma.TmaPlan:
        """The plan over the kernel's descriptor of that description."""
        return replace(plan, spec=self.take_spec(plan.spec))

    def take_spec(self, spec: Any) -> Any:
        """The kernel's descriptor of a description, whatever its name."""
        for known in self.specs:
            if replace(spec, name=known.name) == known:
                return known
        taken = {known.name for known in self.specs}
        base = name = f"{spec.tensor}_map"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        self.specs.append(replace(spec, name=name))
        return self.specs[-1]
