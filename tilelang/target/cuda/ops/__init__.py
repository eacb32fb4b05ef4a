"""The tile operators, one file a family, named as in ``tilelang/tileop/``."""
