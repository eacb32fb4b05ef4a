"""Programs of the kinds that model builders ship, one a file, each with its reference in torch.

A file has ``check(**sizes)``, which runs its kernels on the default target and compares them with torch, the sizes of a fast
check (``SMALL``, divided by no tile where the program allows it), and those of production by kernel (``LARGE``), for which they
are lowered; ``THREADS`` says that it names threads, which a CPU does not have.
``testing/python/programs/test_programs.py`` finds them. Programs that teach stand in ``examples/`` instead.
"""
