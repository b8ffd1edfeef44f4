"""Records to tensors: read, parse, decode, batch, prefetch."""
