# cython: language_level=3
"""Handling signals while native code runs.

Python runs the handlers of signals between its own instructions, so a long native call would hold them up; and an exception
that a handler raises inside a callback of native code has to be carried over that code. Compiled, because a Python function
would run the handlers on entry, before its first ``try``.
"""

from cpython.exc cimport PyErr_CheckSignals


cdef class SignalWatch:
    """Asked by native code, on the thread that called it, whether to give up.

    Attributes:
        error: what a handler raised; None as long as none did.
    """

    cdef public object error

    def __call__(self):
        """Runs the handlers of pending signals; True once one of them raised."""
        try:
            PyErr_CheckSignals()
        except BaseException as error:
            self.error = error
        return self.error is not None
