"""Standard parts: queue, skid buffer, delay line, loop nest, copies for fan-out."""
