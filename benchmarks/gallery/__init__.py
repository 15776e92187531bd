"""The kernels of examples/kernels: found, read, timed."""
