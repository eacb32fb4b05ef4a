"""Transport of entries: between hosts, as bundles, as layers of images."""
