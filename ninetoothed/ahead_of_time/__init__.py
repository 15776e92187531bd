"""Kernels ahead of time: compile calls, describe what was compiled, and print it in C."""
