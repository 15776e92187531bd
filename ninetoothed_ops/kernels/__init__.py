"""The kernels, in the language alone: each file has its formula, its arrangement and its application.

`make(...)` of each gives the kernel, made once for the same options and kept.
"""
