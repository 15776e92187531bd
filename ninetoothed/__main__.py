"""Tell what kernels run on here, and empty the cache.

python -m ninetoothed info          # versions, GPU, assembler, fast paths, caches
python -m ninetoothed cache clear   # remove what was compiled and measured; later calls compile anew
"""

from __future__ import annotations

import argparse

from ninetoothed.runtime import info
from ninetoothed.runtime.compilation import disk_cache


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ninetoothed", description="Look at what kernels run on here.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, GPU, assembler, fast paths and why not, caches and their sizes")
    cache = commands.add_parser("cache", help="what was compiled and measured").add_subparsers(required=True)
    cache.add_parser("clear", help="remove it: later calls compile and measure anew; Triton's own cache stays")
    if parser.parse_args(arguments).command == "info":
        print(info.text())
    else:
        count, size = disk_cache.clear()
        print(f"removed {count} files, {size / 2**20:.1f} MiB, from {disk_cache.directory()}")


if __name__ == "__main__":
    main()
