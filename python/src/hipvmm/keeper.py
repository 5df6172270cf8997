# SPDX-License-Identifier: MIT
"""A process that keeps published memory: python -m hipvmm.keeper FROM PATH.

It keeps the memory that a process publishes at FROM, and publishes it at PATH, until SIGINT or
SIGTERM, as `hipvmm-ctl keep` does. It writes a line when others can attach.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import List

from .sharing import keep

__all__ = ["main"]

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: List[str]) -> int:
    """Keeps until a signal comes."""
    if len(arguments) != 2:
        print("usage: python -m hipvmm.keeper FROM PATH", file=sys.stderr)
        return 2
    # Signals that the parent has it ignore, as nohup does, would come too once blocked. forget()
    # sends SIGTERM.
    ends = [each for each in _ENDS
            if each == signal.SIGTERM or signal.getsignal(each) != signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each chunk costs a descriptor
    try:
        kept = keep(*arguments)
    except (OSError, RuntimeError, ValueError, MemoryError) as why:
        print(why, flush=True)
        return 1
    with kept:
        print("kept", flush=True)
        sys.stdout.close()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
