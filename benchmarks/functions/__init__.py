"""How exact each function of floats is on a device, over the whole range of its type, against float64.

    python -m benchmarks.functions [--device DEVICE] [--only TEXT ...] [--processes N] [--output FILE]
    python -m benchmarks.functions --page

Errors are in units of the last place of the result (`points.py` has the arguments, `measure.py` what an error is). The
reference of float32 and of halves is the function itself in float64 on the CPU, whose own errors are measured against
mpmath. Functions whose result is determined to the last bit are compared with the CPU, bit for bit; that these are
right on the CPU is tested by exact arithmetic. FILE is written, and docs/functions.md anew of all such files, as with
`--page` alone.
"""
