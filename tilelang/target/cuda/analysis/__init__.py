"""What is known of a tile tree: uniformity, thread maps, disjointness, communication; nothing here changes one."""
