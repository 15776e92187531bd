"""What a first launch on a GPU that need not be there would run."""

from ninetoothed.errors import ResourceError
from ninetoothed.runtime import dispatch, executable


def launched(kernel, arguments, gpu):
    """Compile a kernel for arguments as a launch does, which takes other blocks where registers or shared memory lack.

    Return it and its schedule.
    """
    launcher = dispatch.Launcher(kernel.definition)
    for _ in range(dispatch.MOST_SPILLING):
        variant = launcher.trace(arguments, {}, gpu)
        try:
            compiled = executable.GpuExecutable.compile(launcher.definition, variant)
        except ResourceError:
            if not launcher._variants.reject(variant.selection):
                raise
            continue
        if not compiled.spills or not launcher._variants.reject(variant.selection):
            break
    return compiled, variant.selection.schedule
