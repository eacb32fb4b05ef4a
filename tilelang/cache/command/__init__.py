"""What people can do with a cache: ``tilelang cache …``."""
