"""Keys: the kernel key of a program, the source key of a call, and the fingerprint of the compiler, which is a part of both."""
