"""Passes over tile programs that no single target owns, one a file, and the runner that targets share."""
