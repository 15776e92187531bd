"""The evaluation of the paper: `benchmarks.kernels`, `benchmarks.cpu` and `benchmarks.code`, each run with `python -m`."""
