"""Entries: immutable directories of files, the links that lead to them, and which of them go when there is no room."""
