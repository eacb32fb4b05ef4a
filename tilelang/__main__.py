"""``python -m tilelang``: the command ``tilelang``."""

from tilelang.cli import main

if __name__ == "__main__":
    main()
