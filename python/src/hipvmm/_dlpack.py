# SPDX-License-Identifier: MIT
"""DLPack: arrays of devices for other packages, without a copy."""

from __future__ import annotations

import atexit
import ctypes
import gc
import sys
from typing import Any, Dict, Sequence, Tuple

from ._errors import UnsupportedError
from .device import is_host_accessible, provider

# DLDeviceType.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST = 1, 2, 3, 10, 11

_TYPE_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _ManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ManagedTensor._fields_ = [
    ("dl_tensor", _Tensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
]

_NAME = b"dltensor"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid.restype = ctypes.c_int

# The tensors of other packages, by address, with the owner of the memory.
_exported: Dict[int, Any] = {}
# The capsules of those that nobody has taken yet. They have no destructor: one by ctypes would lose
# the exception that is being raised while a capsule ends.
_waiting: Dict[int, Any] = {}


def _delete(tensor: int, pop: Any = _exported.pop) -> None:
    # Without names of the module, which the interpreter takes away before the last tensors end.
    pop(tensor, None)


_delete_in_c = _Deleter(_delete)
for _each in (_exported, _delete_in_c):
    # Never destroyed: tensors of other packages may end after this module.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_each))


def sweep() -> None:
    """Ends the tensors whose capsules were dropped without having been taken."""
    for tensor in list(_waiting):
        capsule_is_dropped = sys.getrefcount(_waiting.get(tensor)) == 2
        try:
            if not _is_valid(_waiting[tensor], _NAME):
                del _waiting[tensor]  # taken: its taker deletes the tensor
            elif capsule_is_dropped:
                del _waiting[tensor]
                _delete(tensor)
        except KeyError:
            pass  # another thread was here


def _sweep_with_garbage(phase: str, _: Any) -> None:
    if phase == "stop":
        sweep()


def _end_at_exit() -> None:
    """At the interpreter's exit: tensors of other packages end with the process."""
    gc.callbacks.remove(_sweep_with_garbage)
    for managed, *_ in list(_exported.values()):
        managed.deleter = ctypes.cast(None, _Deleter)


gc.callbacks.append(_sweep_with_garbage)
atexit.register(_end_at_exit)


def device_of(device: int, host_memory: bool = False) -> Tuple[int, int]:
    """The kind and number of a device in DLPack: the CPU for memory that host code may use."""
    if provider() == "host":
        if host_memory or is_host_accessible(device):
            return CPU, 0
        raise UnsupportedError("host code may not use the memory of this device, and it is no GPU")
    kinds = (ROCM, ROCM_HOST) if provider() == "amd" else (CUDA, CUDA_HOST)
    return (kinds[1], 0) if host_memory else (kinds[0], device)


def capsule(owner: Any, ptr: int, shape: Sequence[int], typestr: str, device: Tuple[int, int]
            ) -> Any:
    """A capsule of memory that `owner` keeps alive."""
    code = _TYPE_CODES.get(typestr[1])
    if code is None:
        raise UnsupportedError(f"DLPack has no type for elements of {typestr}")
    itemsize = int(typestr[2:])
    if itemsize > (16 if typestr[1] == "c" else 8):
        raise UnsupportedError(f"DLPack has no type for padded elements such as {typestr}")
    sweep()
    managed = _ManagedTensor()
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    tensor = managed.dl_tensor
    tensor.data = ptr or None
    tensor.device = _Device(*device)
    tensor.ndim = len(shape)
    tensor.dtype = _DataType(code, 8 * itemsize, 1)
    tensor.shape = sizes
    tensor.strides = None
    tensor.byte_offset = 0
    managed.deleter = _delete_in_c
    address = ctypes.addressof(managed)
    _exported[address] = (managed, sizes, owner)
    try:
        made = _new_capsule(address, _NAME, None)
        _waiting[address] = made
        return made
    except BaseException:
        _exported.pop(address, None)
        raise


def require_no_copy(own: Tuple[int, int], dl_device: Any, copy: Any) -> None:
    """Raises UnsupportedError if a copy is necessary."""
    if copy:
        raise UnsupportedError("DLPack with copy=True: use copy_to_host()")
    if dl_device is not None and tuple(dl_device) != own:
        raise UnsupportedError(f"the memory is on DLPack's device {own}, not {dl_device}")
