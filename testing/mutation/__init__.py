"""Mutation testing of the CUDA target with random programs: see docs/testing.md."""
