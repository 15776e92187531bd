"""Tell what kernels run on here, and empty the cache.

python -m ninetoothed info          # versions, GPU, assembler, fast paths, caches
python -m ninetoothed cache clear   # remove what was compiled and measured; later calls compile anew
python -m ninetoothed build --output built serve.py   # run a program, and build what it called
"""

from __future__ import annotations

import argparse
import runpy
import sys

from ninetoothed.build import recording
from ninetoothed.runtime import info
from ninetoothed.runtime.compilation import disk_cache


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ninetoothed", description="Look at what kernels run on here.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, GPU, assembler, fast paths and why not, caches and their sizes")
    cache = commands.add_parser("cache", help="what was compiled and measured").add_subparsers(required=True)
    cache.add_parser("clear", help="remove it: later calls compile and measure anew; Triton's own cache stays")
    build = commands.add_parser("build", help="run a program, and build the kernels that it called ahead of time")
    build.add_argument("program", help="a file of Python, which runs as `__main__`")
    build.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program is given")
    build.add_argument("--output", required=True, help="the folder to build into")
    build.add_argument("--gpu", action="append", help="a GPU to build for, several times; by default the one here")
    given = parser.parse_args(arguments)
    if given.command == "info":
        print(info.text())
    elif given.command == "build":
        _build(given)
    else:
        count, size = disk_cache.clear()
        print(f"removed {count} files, {size / 2**20:.1f} MiB, from {disk_cache.directory()}")


def _build(given: argparse.Namespace) -> None:
    """Run a program while its calls are recorded."""
    kept, sys.argv = sys.argv, [given.program, *given.arguments]
    try:
        with recording(given.output, gpus=given.gpu) as made:
            try:
                runpy.run_path(given.program, run_name="__main__")
            except SystemExit as end:
                if end.code:
                    raise
    finally:
        sys.argv = kept
    assert made.folder is not None
    kernels = dict.fromkeys(each.kernel for each in made.folder.variants)
    print(f"built {len(made.folder.variants)} variants of {len(kernels)} kernels into {given.output}")
    for name, reason in made.left_out.items():
        print(f"left out {name}: {reason}")


if __name__ == "__main__":
    main()
