"""See what a kernel does: program by program and line by line, as a page, in a notebook."""
