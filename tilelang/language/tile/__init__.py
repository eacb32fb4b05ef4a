"""Language calls of the tile operators, one family a file, named like the operators' own (:mod:`tilelang.tileop`).

They are a package of their own because a module ``tilelang.language.copy`` would hide the function ``T.copy``.
"""
