"""From PTX to machine code: which assembler does it, and whether the machine code does what the PTX says."""
