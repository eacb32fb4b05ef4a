"""The front end: traces an annotated Python function into a tile program (a ``PrimFunc``).

The function's syntax tree is rewritten so that control flow, assignments and subscripts go through :mod:`hooks`, then the
rewritten function simply runs; every language call it makes appends statements to the current :mod:`builder`. Python values
are therefore compile-time values, with which all of Python works.
"""
