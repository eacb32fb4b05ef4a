"""What is known of all entries: the index and the journal beside it."""
