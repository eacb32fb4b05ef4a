"""The compiler's hooks for other programs, by the names that programs import them by."""
