"""Helpers around the compiler under the names that programs import them by."""
