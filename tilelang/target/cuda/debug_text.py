def emit_debug(gen, node): raise NotImplementedError
