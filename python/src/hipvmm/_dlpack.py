# SPDX-License-Identifier: MIT
"""DLPack: arrays of devices for other packages, without a copy."""

from __future__ import annotations

import atexit
import ctypes
from typing import Any, Sequence, Tuple

from ._errors import UnsupportedError
from ._library import lib
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


class _Owner(ctypes.Structure):
    """hipvmm_python_owner."""

    _fields_ = [("object", ctypes.c_void_p), ("interpreter", ctypes.c_uint64)]


_ManagedTensor._fields_ = [
    ("dl_tensor", _Tensor),
    ("manager_ctx", ctypes.c_void_p),  # of an _Owner
    ("deleter", ctypes.c_void_p),
]


class _Exported(ctypes.Structure):
    """A tensor of other packages, which has a reference to this object while it lives."""

    _fields_ = [("managed", _ManagedTensor), ("owner", _Owner)]
    memory: Any  # its shape, and the owner of its bytes


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_NAME = b"dltensor"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object
# A function of Python as the deleter would lose an exception that is being raised while it runs.
_library = lib().loaded
_delete_tensor = _address_of(_library.hipvmm_python_delete_tensor)
_delete_capsule = _address_of(_library.hipvmm_python_delete_capsule)
_interpreter = ctypes.c_uint64()
lib().python_begin(*(_address_of(getattr(ctypes.pythonapi, name)) for name in (
    "PyGILState_Ensure", "PyGILState_Release", "Py_DecRef", "PyCapsule_IsValid",
    "PyCapsule_GetPointer")), ctypes.byref(_interpreter))
# Tensors that end later end with the process.
atexit.register(_library.hipvmm_python_end)


def device_of(device: int, host_memory: bool = False) -> Tuple[int, int]:
    """The kind and number of a device in DLPack: the CPU for memory that host code may use.

    host_memory: whether it is pinned memory of the host, which is no device's. PyTorch and CuPy
    take other memory that a device reaches, such as managed memory, as the device's.
    """
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
    exported = _Exported()
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    tensor = exported.managed.dl_tensor
    tensor.data = ptr or None
    tensor.device = _Device(*device)
    tensor.ndim = len(shape)
    tensor.dtype = _DataType(code, 8 * itemsize, 1)
    tensor.shape = sizes
    tensor.strides = None
    tensor.byte_offset = 0
    # No ctypes.pointer, which would make a cycle.
    exported.managed.manager_ctx = ctypes.addressof(exported) + _Exported.owner.offset
    exported.managed.deleter = _delete_tensor
    exported.owner = _Owner(id(exported), _interpreter.value)
    exported.memory = sizes, owner
    of_tensor = ctypes.py_object(exported)
    ctypes.pythonapi.Py_IncRef(of_tensor)
    try:
        return _new_capsule(ctypes.addressof(exported), _NAME, _delete_capsule)
    except MemoryError:  # and nothing else, for then there is a capsule, which deletes the tensor
        ctypes.pythonapi.Py_DecRef(of_tensor)
        raise


def require_no_copy(own: Tuple[int, int], dl_device: Any, copy: Any) -> None:
    """Raises UnsupportedError if a copy is necessary."""
    if copy:
        raise UnsupportedError("DLPack with copy=True: use copy_to_host()")
    if dl_device is not None and tuple(dl_device) != own:
        raise UnsupportedError(f"the memory is on DLPack's device {own}, not {dl_device}")
