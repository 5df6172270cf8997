# SPDX-License-Identifier: MIT
"""Memory of a tag in a file, which another process has at the same addresses."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional

from ._dtype import dtype_of
from ._errors import InvalidArgumentError
from ._handle import HeldHandle, Owner
from ._library import get_address, get_size, get_text, lib, path_bytes
from .device import device_or_current, stream_value
from .sleep import tag_bytes

__all__ = ["Checkpoint", "save_checkpoint"]


def save_checkpoint(tag: str, path: Any, notes: str = "", *, stream: Any = None) -> int:
    """Writes all memory of a tag into a file, in place of any other at `path`; returns the bytes.

    >>> notes = json.dumps({"weights": [weights.ptr, weights.shape, "float16"]})
    >>> hipvmm.save_checkpoint("weights", "/var/lib/engine/weights", notes)

    notes: a text by which the program finds its arrays again.
    stream: all work that uses the memory is ordered before the call in it, and it alone is waited
        for. Without one, all work of every device with access is.

    The memory stays as it is. No other thread may use it meanwhile. After a failure there is no new
    file. Raises InvalidStateError while the tag sleeps, SystemFailureError if the disk is full.
    """
    if not isinstance(notes, str):
        raise TypeError(f"notes are {type(notes).__name__}, and must be a text")
    if "\0" in notes:
        raise InvalidArgumentError("the notes have a zero in them")
    in_stream = None if stream is None else ctypes.byref(ctypes.c_void_p(stream_value(stream)))
    return get_size(lib().checkpoint_save, tag_bytes(tag), path_bytes(path), notes.encode(),
                    in_stream)


class Checkpoint(Owner):
    """The memory of a file of save_checkpoint(), at the same addresses, until close().

    >>> loaded = hipvmm.Checkpoint("/var/lib/engine/weights")
    >>> address, shape, dtype = json.loads(loaded.notes)["weights"]
    >>> weights = cupy.asarray(loaded.array(address, shape, dtype))

    tag: the memory carries it, so that it can sleep, and be saved again.

    Raises InvalidArgumentError for a file that is damaged, of another device, or that other users
    may write, and OutOfMemoryError if other code of the process has some of the addresses: load
    before other memory is made, or start the process again. Then nothing stays reserved.
    """

    _destroy_function = "checkpoint_destroy"

    def __init__(self, path: Any, *, tag: Optional[str] = None,
                 device: Optional[int] = None) -> None:
        super().__init__(get_address(lib().checkpoint_load, path_bytes(path),
                                     device_or_current(device),
                                     None if tag is None else tag_bytes(tag)))

    @property
    def notes(self) -> str:
        """The text that save_checkpoint() was given."""
        return get_text(lib().checkpoint_notes, self.handle)

    def array(self, address: int, shape: Any, dtype: Any = "uint8") -> CheckpointArray:
        """An array of the memory, by its __cuda_array_interface__, which keeps the memory.

        Nobody checks that the address is one of the checkpoint.
        """
        return CheckpointArray(self._hold(), {
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None,
            "typestr": dtype_of(dtype).typestr,
            "version": 3,
            "stream": None,
        })


class CheckpointArray:
    """Memory of a Checkpoint, for libraries that take a __cuda_array_interface__."""

    def __init__(self, held: HeldHandle, interface: Dict[str, Any]) -> None:
        self._held = held
        self.__cuda_array_interface__ = interface
