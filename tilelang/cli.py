"""The command ``tilelang``."""

from __future__ import annotations

import typer

from tilelang.cache.command.cli import app as cache_app
from tilelang.simulator.command import SETTINGS, simulate

app = typer.Typer(
    help="tilelang: a compiler for tile programs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(cache_app, name="cache")
app.command("simulate", context_settings=SETTINGS)(simulate)


@app.callback()
def _tilelang() -> None:
    """tilelang: a compiler for tile programs."""


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
