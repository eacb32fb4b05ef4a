"""Programs that tests run in a process of their own, with the driver of the tests. Each prints one line a check that held."""
