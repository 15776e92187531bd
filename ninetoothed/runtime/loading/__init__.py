"""Load what was built ahead of time: from the folder to launches, without Triton and without tracing."""
