"""Assemble PTX: choose an assembler, and verify that the machine code does what the PTX says."""
