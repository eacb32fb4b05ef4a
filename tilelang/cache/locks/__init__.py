"""Locks on keys and entries between threads, processes and forked children."""
