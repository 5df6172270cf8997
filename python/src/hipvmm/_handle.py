# SPDX-License-Identifier: MIT
"""Objects that own a handle of the library."""

from __future__ import annotations

import atexit
import functools
import math
import os
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

from ._errors import HipvmmError, InvalidArgumentError, InvalidHandleError, UnsupportedError
from ._library import lib


class _Finalizers:
    """Objects that are destroyed before the interpreter ends, threads or not.

    A daemon thread may be anywhere when the interpreter ends: between a function of C that has made
    something and its finalizer, or between the end of an object and the function of C that destroys
    it. weakref.finalize alone would leave objects that such threads make and destroy. So code makes
    objects within `with finalizers:`, and the end waits for those and refuses others.

    patience: seconds of the end at most, for a thread may wait in a function of C for anything.
    """

    patience = 5.0

    def __init__(self) -> None:
        self.generation = 0  # of the process: one more in a child of fork()
        # Unchanged while handles are good. One more in a child of fork(); NaN, which equals
        # nothing, once the interpreter ends.
        self.era: float = 0
        # By the numbers of threads, so that each changes its own entry: no lock is needed.
        self._making: Dict[int, int] = {}
        self._pending: Dict[object, weakref.finalize] = {}
        self._is_registered = False
        self._ending: Optional[int] = None  # the thread that ends the interpreter
        os.register_at_fork(after_in_child=self._become_child)

    def _become_child(self) -> None:
        # Of other threads, and of the parent.
        self._making.clear()
        self._pending.clear()
        self.generation += 1
        self.era = self.generation

    def __enter__(self) -> None:
        thread = threading.get_ident()
        depth = self._making.get(thread, 0)
        self._making[thread] = depth + 1
        # Only now: the end looks in the other order.
        if self._ending is not None and depth == 0 and self._ending != thread:
            del self._making[thread]
            raise InvalidHandleError("the interpreter ends: other threads make nothing more")

    def __exit__(self, *exception: Any) -> None:
        thread = threading.get_ident()
        depth = self._making.pop(thread, 0)  # none in a child of fork() that was made within
        if depth > 1:
            self._making[thread] = depth - 1

    def add(self, owner: Any, destroy: Callable[..., None], *args: Any) -> weakref.finalize:
        """Has `destroy(*args)` called at the end of `owner` or of the interpreter."""
        key = object()
        made = weakref.finalize(owner, self._run, key, destroy, args)
        self._pending[key] = made
        if not self._is_registered:
            # After weakref's own, and so called before it.
            self._is_registered = True
            atexit.register(self._end)
        return made

    def _run(self, key: object, destroy: Callable[..., None], args: Any) -> None:
        try:
            destroy(*args)
        finally:
            self._pending.pop(key, None)

    def _end(self) -> None:
        deadline = time.monotonic() + self.patience

        def wait(while_there: Callable[[], bool]) -> None:
            while while_there() and time.monotonic() < deadline:
                time.sleep(0.001)

        self._ending, self.era = threading.get_ident(), math.nan
        wait(lambda: bool(self._making))
        # The last object made ends first, because it may need the others, in other threads too.
        for key, finalizer in reversed(list(self._pending.copy().items())):
            try:
                finalizer()
            except Exception:  # the rest ends too, as with weakref's own exit
                sys.excepthook(*sys.exc_info())
            wait(lambda one=key: one in self._pending)  # type: ignore[misc]


finalizers = _Finalizers()


def _destroy(function: str, handle: int, process: int, of_callback: Callable[[], Any]) -> None:
    if os.getpid() != process:
        return  # a child of fork() leaves objects of its parent
    callback = of_callback()
    try:
        getattr(lib(), function)(handle)
    except InvalidArgumentError:
        if callback is None:
            return
        # Within the callback itself: it is needed until it has returned.
        threading.Thread(
            target=_destroy, args=(function, handle, process, lambda: callback)).start()
    except HipvmmError:
        pass  # the library reports failures of destructors by itself


def _nothing() -> None:
    """As a weak reference to what has ended."""


_running: List[Any] = []  # callbacks in a call, within which a collection must not end them


def callback_of(kind: Any, function: Callable[..., Any]) -> Any:
    """A callback for a HeldHandle, which may be in a circle with its owner."""

    def call(*args: Any) -> Any:
        _running.append(made)
        try:
            return function(*args)
        finally:
            _running.remove(made)

    made = kind(call)
    return made


class HeldHandle:
    """A handle that is destroyed with the last object that holds it.

    callback: a function that threads of the library may call until then.
    """

    def __init__(self, function: str, handle: int, callback: Any = None) -> None:
        self.value = handle
        self._generation = finalizers.generation
        self._callback = callback  # a finalizer that had it would keep all that it refers to
        self._finalizer = finalizers.add(self, _destroy, function, handle, os.getpid(),
                                         _nothing if callback is None else weakref.ref(callback))

    @property
    def alive(self) -> bool:
        """False once the interpreter exits and has destroyed the remaining objects."""
        return self._finalizer.alive

    def end(self) -> None:
        """Destroys it now, also while others hold it."""
        self._finalizer()

    def __reduce__(self) -> Any:
        raise TypeError("what owns a handle of hipvmm cannot be deep-copied or pickled: copy its "
                        "contents, by copy_to_host()")

    @property
    def is_own(self) -> bool:
        """False in a child of fork() of the process that made it."""
        return self._generation == finalizers.generation

    def require_own(self, name: str) -> None:
        """Raises UnsupportedError in a child of fork() of the process that made it."""
        if not self.is_own:
            raise UnsupportedError(
                f"a child of fork() cannot use the {name} of its parent: start the worker by "
                "spawn or forkserver, or fork before the first call of hipvmm")


class Owner:
    """Owns a handle until close(), the end of a with statement, or the end of the object.

    Remaining objects are destroyed before the interpreter exits.
    """

    _destroy_function = ""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" not in cls.__dict__:
            return
        make = cls.__init__

        @functools.wraps(make)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            with finalizers:  # from the function that makes the handle until it is held
                make(self, *args, **kwargs)

        cls.__init__ = init  # type: ignore[method-assign]

    def __init__(self, handle: int) -> None:
        self._held: Optional[HeldHandle] = HeldHandle(self._destroy_function, handle)

    @property
    def handle(self) -> int:
        """The handle in the C interface. Raises InvalidHandleError after close()."""
        return self._hold().value

    def _hold(self) -> HeldHandle:
        """Keeps the handle for users that need it after close(), too."""
        held = self._held
        if held is None or not held.alive:
            raise InvalidHandleError(f"this {type(self).__name__} was closed")
        held.require_own(type(self).__name__)
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
