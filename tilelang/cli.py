"""The command ``tilelang``."""

from __future__ import annotations

import typer

from tilelang.cache.cli import app as cache_app

app = typer.Typer(help="tilelang: a compiler for tile programs.", no_args_is_help=True, add_completion=False)
app.add_typer(cache_app, name="cache")


@app.callback()
def _tilelang() -> None:
    """tilelang: a compiler for tile programs."""


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
