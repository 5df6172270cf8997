# SPDX-License-Identifier: MIT
"""Standard output of the package's programs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys


def write_out(text: str) -> None:
    """Writes to standard output. Raises OSError, and ends as other programs if nobody reads."""
    if sys.stdout is None:  # it was closed before the interpreter began
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as why:
        with contextlib.suppress(OSError, ValueError):
            # The interpreter writes the rest at its end, and would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(why, BrokenPipeError):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.raise_signal(signal.SIGPIPE)
        raise OSError(why.errno, why.strerror, "standard output") from why
