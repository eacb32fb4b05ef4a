"""Random programs drawn from all of the language, compared on every target: see docs/testing.md."""
