# SPDX-License-Identifier: MIT
"""Tensors of PyTorch in memory that outlives their process: keep(), attach(), forget()."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping, Tuple

from ._errors import InvalidArgumentError, IpcError, UnsupportedError
from ._library import lib
from .device import ordinal_in_torch, synchronize
from .growable import GrowableArray
from .reserved import elements
from .sharing import Attachment
from .slots import SlotView

__all__ = ["attach", "forget", "keep"]

_MAGIC = b"hipvmmT1"
_ALIGNMENT = 256
_PATIENCE = 5  # seconds, as that of attach()
_HEADER = struct.Struct("<8sQ")  # and the index as JSON: [[name, dtype, shape, offset], ...]


def keep(name: str, tensors: Mapping[str, Any], device: Any = None) -> int:
    """Copies tensors, such as a state dict, into memory that a new process keeps, by name.

    >>> hipvmm.torch.keep("llama", model.state_dict())
    ...                                        # this process may end, or be killed
    >>> model.load_state_dict(hipvmm.torch.attach("llama"), assign=True)

    The keeper lives until forget(name), or a signal to the returned process id. Memory of the
    device is needed for both copies until the caller drops its own. `name` may be a path; other
    names are of this user, in a folder of $XDG_RUNTIME_DIR or of the folder for temporary files.
    Raises IpcError if the name is taken.
    """
    import torch

    path = _path_of(name, make_folder=True)
    rows, nbytes = _layout(tensors)
    index = json.dumps(rows).encode()
    start = _aligned(_HEADER.size + len(index))
    ordinal = ordinal_in_torch(device)
    from_path = f"{path}.{os.getpid()}"
    with GrowableArray("uint8", device=ordinal, max=start + nbytes, past_max="refuse",
                       without_vmm="refuse", shareable="posix_fd") as array:
        array.append(_HEADER.pack(_MAGIC, len(index)) + index)
        array.resize_uninitialized(start + nbytes)
        memory = elements(array, torch.uint8, start + nbytes)
        for (_, _, shape, offset), tensor in zip(rows, tensors.values()):
            there = _tensor_at(memory, start + offset, tensor.dtype, shape)
            there.copy_(tensor.detach())
        del memory
        synchronize(ordinal)  # the copies were made in PyTorch's stream
        with array.publish(from_path) as published:
            published.announce()
            synchronize(ordinal)
            return _start_keeper(from_path, path)


def attach(name: str, read_only: bool = True, device: Any = None) -> Dict[str, Any]:
    """The tensors that keep() was given, by their names, in the same memory: nothing is copied.

    A write to a read-only one is an illegal address for the GPU, and ends the process with the host
    provider. The memory is mapped until the last of the tensors ends, also if the keeper has ended.
    Raises IpcError if nothing is kept by that name.
    """
    import torch

    options = {} if device is None else {"device": ordinal_in_torch(device)}
    seen = Attachment(_path_of(name), right="read" if read_only else "read_write", **options)
    nbytes = len(seen)
    head = seen._read(min(nbytes, _HEADER.size))
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        raise IpcError(f"{name} has no tensors that hipvmm.torch.keep() published")
    length = _HEADER.unpack(head)[1]
    if length > nbytes - _HEADER.size:
        raise IpcError(f"the index of {name} does not end in its {nbytes} bytes")
    index = seen._read(_HEADER.size + length)[_HEADER.size:]
    start = _aligned(_HEADER.size + length)
    view = SlotView(seen, seen.ptr, (nbytes,), "|u1")  # type: ignore[arg-type]
    with torch.inference_mode(False):
        memory = torch.from_dlpack(view)[start:]
    try:
        return {key: _tensor_at(memory, offset, getattr(torch, dtype), shape)
                for key, dtype, shape, offset in json.loads(index)}
    except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError) as why:
        raise IpcError(f"the index of {name} is not that of keep(): {why}") from why


def forget(name: str) -> None:
    """Ends the keeper of a name. Processes that are attached keep their tensors.

    Raises IpcError if nothing is kept by that name, or by a process that is no keeper alone, or if
    the keeper has not ended within 5 seconds, because it is stopped."""
    path = _path_of(name)
    with _connect(path) as peer:
        process, user, _ = struct.unpack(
            "iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            raise IpcError(f"{path} is kept by user {user}")
        if not _is_keeper(process):
            raise IpcError(f"process {process}, which publishes at {path}, is no keeper: end it there")
        os.kill(process, signal.SIGTERM)
        try:
            peer.recv(1)  # until it closes
        except BlockingIOError as why:
            raise IpcError(f"process {process}, which keeps {path}, has not ended within "
                           f"{_PATIENCE} s: if it is stopped, SIGCONT lets it end") from why
        except OSError:
            pass


def _connect(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # The system's limits, which a full queue of connections obeys too.
        for limit in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            peer.setsockopt(socket.SOL_SOCKET, limit, struct.pack("@ll", _PATIENCE, 0))
        peer.connect(path)
        return peer
    except BlockingIOError as why:
        peer.close()
        raise IpcError(f"the keeper of {path} accepts no connection within {_PATIENCE} s: if it is "
                       "stopped, SIGCONT lets it go on") from why
    except OSError as why:
        peer.close()
        raise IpcError(f"nothing is kept at {path}: {why}") from why


def _is_keeper(process: int) -> bool:
    """Whether a process does nothing else; one of another PID namespace, which is 0, is none."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as line:
            words = line.read().split(b"\0")
    except OSError:
        return False
    return b"hipvmm.keeper" in words or (
        os.path.basename(words[0]) == b"hipvmm-ctl" and b"keep" in words)


def _path_of(name: str, make_folder: bool = False) -> str:
    if os.sep in name:
        return os.path.abspath(name)  # the keeper is in another folder
    if not name or name.startswith("."):
        raise InvalidArgumentError(f"{name!r} is no name: give a word, or a path")
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(),
                          f"hipvmm-kept-{os.geteuid()}")
    if make_folder:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
    try:
        about = os.lstat(folder)
    except FileNotFoundError as why:
        raise IpcError(f"nothing is kept by the name {name}: there is no {folder}") from why
    if about.st_uid != os.geteuid() or about.st_mode & 0o077 or not os.path.isdir(folder):
        raise IpcError(f"{folder} is not a folder of this user alone: remove it")
    return os.path.join(folder, name)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _layout(tensors: Mapping[str, Any]) -> Tuple[List[Any], int]:
    import torch

    rows, offset = [], 0
    for name, tensor in tensors.items():
        if getattr(tensor, "layout", None) != torch.strided:
            raise UnsupportedError(f"{name} is no dense tensor: keep tensors alone")
        rows.append([name, str(tensor.dtype).replace("torch.", ""), list(tensor.shape), offset])
        offset += _aligned(tensor.numel() * tensor.element_size())
    return rows, max(offset, _ALIGNMENT)


def _tensor_at(memory: Any, offset: int, dtype: Any, shape: List[int]) -> Any:
    import torch

    count = 1
    for length in shape:
        count *= length
    nbytes = count * torch.empty(0, dtype=dtype).element_size()
    if offset < 0 or count < 0:
        raise ValueError(f"there are no {count} elements at {offset}")
    return memory[offset:offset + nbytes].view(dtype).view(shape)


def _start_keeper(from_path: str, path: str) -> int:
    # The library that was loaded here, also if its name was relative to another folder.
    named = {"HIPVMM_LIBRARY": lib().path} if os.sep in lib().path else {}
    # Of a session of its own, so that neither the terminal nor this process ends it.
    with open(os.devnull, "rb") as nothing:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "hipvmm.keeper", from_path, path], stdin=nothing,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            cwd="/",
            env={**os.environ, **named, "PYTHONPATH": os.pathsep.join(
                os.path.abspath(each) for each in sys.path if each)})
    assert keeper.stdout is not None
    said: List[str] = []
    with keeper.stdout:
        for line in keeper.stdout:
            said.append(line.strip())
            if said[-1] == "kept":
                break
    if not said or said[-1] != "kept":
        keeper.wait()
        raise IpcError(said[-1] if said else "the process that keeps the memory ended")
    keeper.returncode = 0  # nobody waits for it
    return keeper.pid
