"""What a kernel is called: the kernel key of a program, the source key of a call, and whether the compiler has changed since."""
