"""``python -m tilelang.simulator program.py ...`` runs a program for CUDA without a GPU."""

from tilelang.simulator.command import main

main()
