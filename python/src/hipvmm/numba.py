# SPDX-License-Identifier: MIT
"""hipvmm as Numba's memory manager: the memory of devices; that of the host stays Numba's.

    import hipvmm.numba
    hipvmm.numba.install()              # before Numba's first array on a device

or NUMBA_CUDA_MEMORY_MANAGER=hipvmm.numba in the environment.

Memory comes from the resource that was set for the device (``hipvmm.mr.set_per_device_resource``,
``hipvmm.reinitialize``); otherwise from one pool for each device, with the options in
HIPVMM_CONF. Numba does not say in which stream an array is used: memory is reused when the device
has finished its work of the time at which the array ended. Only an allocation may wait for that.

Not honoured: IPC handles, which memory of pools has none of. Pinned, mapped and managed memory is
allocated by Numba itself.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Dict, Iterator, List

from ._errors import OutOfMemoryError, UnsupportedError
from ._library import lib, report_callback_error, take_callback_error
from .device import device_memory

__all__ = ["install"]


class _Block:
    """An allocation."""

    __slots__ = ("ptr",)

    def __init__(self, nbytes: int, device: int) -> None:
        report_callback_error(take_callback_error())  # of an earlier call, which has succeeded
        self.ptr = lib().loaded.hipvmm_device_allocate_sync(nbytes, device) or 0
        if nbytes and not self.ptr:
            lib().throw_last()

    def free(self) -> None:
        """Frees it: reused when the devices have finished their present work."""
        lib().loaded.hipvmm_device_deallocate_sync(self.ptr)


class _Deferred:
    """Blocks that end while Numba asks for no cleanup."""

    def __init__(self) -> None:
        self.depth = 0
        self.blocks: List[_Block] = []

    def free(self, block: _Block) -> None:
        if self.depth:
            self.blocks.append(block)
        else:
            block.free()

    def flush(self) -> None:
        while self.blocks:
            self.blocks.pop().free()


def _make_types() -> Dict[str, Any]:
    """The classes that derive from Numba's, which cannot be named before it is there."""
    try:
        from numba.cuda import HostOnlyCUDAMemoryManager, MemoryInfo, MemoryPointer
        from numba.cuda.cudadrv import driver
    except ImportError as failure:
        raise ModuleNotFoundError(
            "hipvmm.numba needs Numba with CUDA, which cannot be imported: "
            + str(failure)) from failure
    # Numba before numba-cuda can be without NVIDIA's bindings, and then has numbers for addresses.
    has_bindings = getattr(driver, "USE_NV_BINDING", True)
    address_type = ctypes.c_void_p if has_bindings else ctypes.c_uint64

    class NumbaOutOfMemoryError(driver.CudaAPIError, OutOfMemoryError):  # type: ignore[misc]
        """The device, or a limit, has no memory left for an array."""

    # CUDA_ERROR_OUT_OF_MEMORY, as the enumerator that Numba compares with if it has one.
    code = 2
    if has_bindings and hasattr(driver, "binding"):
        code = driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY

    class HipvmmNumbaManager(HostOnlyCUDAMemoryManager):  # type: ignore[misc]
        """Numba's external memory manager: memory of devices from hipvmm, that of the host Numba's.
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._deferred = _Deferred()

        def initialize(self) -> None:
            """Nothing is needed within a context."""

        def memalloc(self, size: int) -> Any:
            """Allocates on the context's device, and frees when Numba's pointer ends."""
            deferred = self._deferred

            def make() -> _Block:
                try:
                    return _Block(size, self.context.device.id)
                except OutOfMemoryError as failure:
                    # Numba tries again once, after its pending frees.
                    error = NumbaOutOfMemoryError(code, str(failure))
                    for name in ("exhausted", "device", "bytes_requested", "bytes_free"):
                        setattr(error, name, getattr(failure, name))
                    deferred.flush()
                    raise error from None

            block = self._attempt_allocation(make)
            allocations = self.allocations
            if block.ptr:
                allocations[block.ptr] = block

            def free() -> None:
                # If the context was reset, it was freed then, and the address may be another's.
                if allocations.get(block.ptr) is block:
                    del allocations[block.ptr]
                    deferred.free(block)

            return MemoryPointer(
                self.context, address_type(block.ptr), size, finalizer=free)

        def reset(self) -> None:
            """Frees all memory of the context."""
            self._deferred.flush()
            for known in list(self.allocations.values()):
                if isinstance(known, _Block):
                    known.free()
            super().reset()

        @contextlib.contextmanager
        def defer_cleanup(self) -> Iterator[None]:
            """Frees nothing in the block."""
            deferred = self._deferred
            with super().defer_cleanup():
                deferred.depth += 1
                try:
                    yield
                finally:
                    deferred.depth -= 1
                    if not deferred.depth:
                        deferred.flush()

        def get_memory_info(self) -> Any:
            """Free and total memory of the device, without the memory that a pool holds."""
            now = device_memory(self.context.device.id)
            return MemoryInfo(free=now.free, total=now.total)

        def get_ipc_handle(self, memory: Any) -> Any:
            """Raises: memory of pools has no handle of this kind."""
            raise UnsupportedError(
                "memory of hipvmm has no CUDA IPC handle: share a GrowableArray by publish()")

        @property
        def interface_version(self) -> int:
            """Of Numba's interface."""
            return 1

    return {"HipvmmNumbaManager": HipvmmNumbaManager, "NumbaOutOfMemoryError": NumbaOutOfMemoryError}


_made: Dict[str, Any] = {}
# Names by which the class is asked for: RMM's, and the one that Numba looks for in a module.
_MANAGERS = ("HipvmmNumbaManager", "RMMNumbaManager", "_numba_memory_manager")


def __getattr__(name: str) -> Any:
    if name in _MANAGERS or name == "NumbaOutOfMemoryError":
        if not _made:
            _made.update(_make_types())
        return _made["HipvmmNumbaManager" if name in _MANAGERS else name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> None:
    """Makes it Numba's memory manager.

    Call it before Numba makes its first context: contexts keep the manager that they began with.
    """
    manager = __getattr__("HipvmmNumbaManager")
    from numba import cuda

    cuda.set_memory_manager(manager)

