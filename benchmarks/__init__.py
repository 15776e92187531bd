"""The paper's evaluation, one command each: `python -m benchmarks.kernels`, `benchmarks.cpu` and `benchmarks.code`."""
