"""Golden files for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

_GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compares a text with the golden file of the running test: ``golden(text)``.

    The file is ``golden/<folder of the test>/<test file>/<test name>.txt``; ``--update-golden`` writes it.
    """
    module = Path(request.node.path).relative_to(Path(__file__).parent / "python").with_suffix("")
    path = _GOLDEN / module / f"{request.node.name}.txt"

    def compare(text: str) -> None:
        text = text.rstrip() + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"no golden file {path}; run pytest with --update-golden and review it"
        assert text == path.read_text(), f"{path} differs; run pytest with --update-golden and review the change"

    return compare
