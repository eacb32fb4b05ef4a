"""Where tiles live and which threads run what: the constraint solve, and what each statement demands of it."""
