"""Who holds a key or an entry: threads, processes, children."""
