"""What must wait for what: pipelined loops, barriers, and the places of shared buffers."""
