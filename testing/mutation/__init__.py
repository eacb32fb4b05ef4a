"""One line of the compiler is changed at a time; the random programs and the verifier must notice: see docs/testing.md."""
