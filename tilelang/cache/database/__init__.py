"""Statistics and look-ups over all entries: the index and the journal beside it."""
