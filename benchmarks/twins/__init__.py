"""The ten kernels written by hand in Triton, to hold the compiled ones against: `twins/OP.py` has the kernel alone
(what the code metrics count), `twins/launch.py` calls it with the arguments of PyTorch's operation."""
