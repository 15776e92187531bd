"""What a first launch on a GPU that need not be there would run."""

import functools

from ninetoothed.runtime import arguments, dispatch, executable


def launched(kernel, arguments_, gpu):
    """Compile a kernel for arguments as a launch does, which takes other blocks where registers or shared memory lack.

    Return it and its schedule.
    """
    launcher = dispatch.Launcher(kernel.definition)
    call, place = arguments.check(launcher.definition, arguments.bind(launcher.definition, arguments_, {}))
    build = functools.partial(launcher._variants.get, launcher.definition, compile=executable.compile_for_gpu)
    selection, variant = launcher._variants.best(launcher.plan, call, place, gpu, build)
    return variant.compiled, selection.schedule
