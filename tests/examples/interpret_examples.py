"""Run by `test_kernels` under TRITON_INTERPRET=1: the first call of each check of a theme, as emitted for a GPU."""

import sys
import warnings

from benchmarks.gallery.files import examples
from ninetoothed.runtime import executable
from tests.examples.kernel_checks import assert_right
from tests.ninetoothed.backends import interpreted

if __name__ == "__main__":
    # Rows past the end that a program takes with others hold what nobody reads.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    interpreted.pytest_configure(None)
    assert executable.prepare_for_host is not None
    for example in examples():
        if example.theme == sys.argv[1] and not getattr(example.module, "NOT_INTERPRETED", ""):
            assert assert_right(example, "cpu", most=1) == 1
            print(example.name)
