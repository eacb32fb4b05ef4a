"""Where the cache is, and whether that is a safe place."""
