def emit_scan(gen, node): raise NotImplementedError
