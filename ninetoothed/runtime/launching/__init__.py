"""Launch machine code on a GPU by its driver, of kernels that are compiled and of those that were built alike."""
