"""Run by `test_kernels` under TRITON_INTERPRET=1: the first call of each check of a theme, as emitted for a GPU.

Of `in_triton`, the kernels in Triton by hand do the first call of the checks of those beside which they stand.
"""

import importlib
import sys
import warnings

from benchmarks.gallery.files import IN_TRITON, examples
from tests.examples.kernel_checks import assert_right
from tests.ninetoothed.backends import interpreted

if __name__ == "__main__":
    # Rows past the end that a program takes with others hold what nobody reads.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    interpreted.mend()
    interpreted.pytest_configure(None)
    for example in examples():
        if sys.argv[1] == IN_TRITON and example.in_triton:
            twin = importlib.import_module(f"examples.kernels.{IN_TRITON}.{example.name}")
            setattr(example.module, example.name, getattr(twin, example.name))
            assert assert_right(example, "cpu", most=1) == 1
            print(example.name)
        elif example.theme == sys.argv[1] and not getattr(example.module, "NOT_INTERPRETED", ""):
            assert assert_right(example, "cpu", most=1) == 1
            print(example.name)
