"""How entries travel: between hosts, as files, as layers of images."""
