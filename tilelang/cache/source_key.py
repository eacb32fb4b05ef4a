"""placeholder"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceKey:
    digest: str | None
    function: str = ""
    reason: str = ""
