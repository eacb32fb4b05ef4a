"""The command line of the cache: ``tilelang cache …``."""
