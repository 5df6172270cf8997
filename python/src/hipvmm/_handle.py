# SPDX-License-Identifier: MIT
"""Objects that own a handle of the library."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Optional

from ._errors import HipvmmError, InvalidArgumentError, InvalidHandleError
from ._library import lib


def _destroy(function: str, handle: int, process: int, callback: Any) -> None:
    if os.getpid() != process:
        return  # a child of fork() leaves what is its parent's
    try:
        getattr(lib(), function)(handle)
    except InvalidArgumentError:
        if callback is None:
            return
        # Within the callback itself: it is needed until it has returned.
        threading.Thread(target=_destroy, args=(function, handle, process, callback)).start()
    except HipvmmError:
        pass  # the library reports failures of destructors by itself


class HeldHandle:
    """A handle that is destroyed with the last object that holds it.

    callback: what threads of the library may call until then.
    """

    def __init__(self, function: str, handle: int, callback: Any = None) -> None:
        self.value = handle
        self._finalizer = weakref.finalize(self, _destroy, function, handle, os.getpid(), callback)

    @property
    def alive(self) -> bool:
        """False once the interpreter exits and has destroyed what was left."""
        return self._finalizer.alive


class Owner:
    """Owns a handle until close(), the end of a with statement, or the end of the object.

    What is still there when the interpreter exits is destroyed before it does.
    """

    _destroy_function = ""

    def __init__(self, handle: int) -> None:
        self._held: Optional[HeldHandle] = HeldHandle(self._destroy_function, handle)

    @property
    def handle(self) -> int:
        """The handle in the C interface. Raises InvalidHandleError after close()."""
        return self._hold().value

    def _hold(self) -> HeldHandle:
        """What keeps the handle, for others that need it after close(), too."""
        held = self._held
        if held is None or not held.alive:
            raise InvalidHandleError(f"this {type(self).__name__} was closed")
        return held

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        held = self._held
        return held is None or not held.alive

    def close(self) -> None:
        """Destroys the object in the library, at once unless others still need it, such as the
        buffers of a resource. A second call does nothing."""
        self._held = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
