"""Rewrites of a kernel before layouts are inferred: exits and conditions of threads, short loops over parts of fragments."""
