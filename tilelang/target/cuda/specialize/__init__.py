"""Warp specialisation (sm_90a): pipelined loops as a producer that loads tiles and consumers that use them."""
