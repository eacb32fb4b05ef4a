"""Programs of the kinds that model builders ship, one a file, each with its reference in torch.

A file has ``check(**sizes)``, which runs its kernels on the default target and compares them with torch, the sizes of a fast
check (``SMALL``, divided by no tile where the program allows it), and those of production by kernel (``LARGE``), for which they
are lowered; ``TARGETS`` leaves out those that the program is not for: a CPU has no threads that know of each other.
``testing/python/programs/test_programs.py`` finds them. Programs that teach stand in ``examples/`` instead.
"""
