"""Check each function of the language with each element type: what is traced, compiled for GPUs, and computed.

python -m benchmarks.types                            # all, for sm_80, sm_90 and sm_100: an hour of a core
python -m benchmarks.types --only histogram --gpu h100

A kernel of one function is traced with tensors of one type. Either a named error refuses the type, on all backends or
as the row of the primitive says, or Triton compiles the kernel and the CPU gives what NumPy gives for Python's numbers.
Whatever else happens is a fault. No GPU is needed; tests/ninetoothed/language/test_types.py runs the kernels on one.
"""
