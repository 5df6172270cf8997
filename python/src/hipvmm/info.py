# SPDX-License-Identifier: MIT
"""``python -m hipvmm.info``: the library found, and the properties of the devices."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from . import device
from ._errors import HipvmmError, LibraryNotFoundError
from ._library import lib
from ._output import write_out
from ._version import __version__

__all__ = ["describe", "main"]


def _bytes(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def describe(traits: bool = False) -> str:
    """The page that main() prints. Raises LibraryNotFoundError, HipvmmError."""
    library = lib()
    lines = [
        f"hipvmm for Python {__version__}",
        f"library: {library.path}, hipvmm {library.version}, C interface {library.c_version}",
        f"provider: {device.provider()}",
        f"devices: {device.device_count()}",
    ]
    for ordinal in device.devices():
        memory = device.device_memory(ordinal)
        lines.append(f"device {ordinal}: {device.device_name(ordinal)}, {_bytes(memory.total)}, "
                     f"{_bytes(memory.free)} free")
        known = device.capability(ordinal).splitlines()
        shown = known if traits else [each for each in known
                                      if each.split(" ")[0] in ("path:", "why:", "quirk")]
        lines += ["  " + each for each in shown]
    return "\n".join(lines) + "\n"


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the findings; 1 if the library was not found, or failed, or the output."""
    parser = argparse.ArgumentParser(prog="python -m hipvmm.info", description=(
        "Prints which libhipvmm the package uses, the devices, and how their memory behaves."))
    parser.add_argument("--traits", action="store_true", help="all that is known about each device")
    options = parser.parse_args(arguments)
    try:
        write_out(describe(options.traits))
    except (LibraryNotFoundError, HipvmmError, OSError) as failure:
        print(f"hipvmm.info: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
