# SPDX-License-Identifier: MIT
"""Types of elements, with and without numpy."""

from __future__ import annotations

import array as _array
import operator
import sys
from typing import Any, NamedTuple, Sequence, Tuple

from ._errors import InvalidArgumentError, UnsupportedError

_ORDER = "<" if sys.byteorder == "little" else ">"
# The types without numpy, by the kind in a typestr.
_BYTES = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_KINDS = {"int": "i", "uint": "u", "float": "f", "complex": "c"}


def numpy_or_none() -> Any:
    """numpy, or None if it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class DType(NamedTuple):
    """A type of elements: its typestr in the array interface, such as "<f4", and its bytes."""

    typestr: str
    itemsize: int

    @property
    def name(self) -> str:
        """As dtype_of() takes it, such as "float32"."""
        name = {**{kind: name for name, kind in _KINDS.items()}, "b": "bool"}[self.typestr[1]]
        return name if name == "bool" else f"{name}{8 * self.itemsize}"

    @property
    def struct_code(self) -> str:
        """The code in the modules array and struct; "" if they have none."""
        return {
            "|b1": "?", "|i1": "b", "|u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I",
            "i8": "q", "u8": "Q", "f4": "f", "f8": "d",
        }.get(self.typestr if self.itemsize == 1 else self.typestr[1:], "")


def array_without_numpy(dtype: DType, content: bytes) -> Any:
    """The elements as an array of the standard library."""
    if not dtype.struct_code:
        raise UnsupportedError(f"there is no array of {dtype.typestr} without numpy: use tobytes()")
    return _array.array(dtype.struct_code.replace("?", "B"), content)


def dtype_of(dtype: Any) -> DType:
    """A type by its name ("float32"), its typestr ("<f4"), or numpy's object for it."""
    numpy = numpy_or_none()
    if numpy is not None:
        try:
            known = numpy.dtype(dtype)
        except (TypeError, ValueError, SyntaxError) as failure:
            raise InvalidArgumentError(f"{dtype!r} is no type of elements: {failure}") from failure
        if known.kind not in "biufc":
            raise InvalidArgumentError(
                f"elements of {known} cannot be on a device: they must be numbers or booleans")
        if not known.isnative:
            raise InvalidArgumentError(f"elements of {known} are not in this machine's byte order")
        return DType(known.str, known.itemsize)
    if not isinstance(dtype, str):
        dtype = getattr(dtype, "__name__", str(dtype))
        dtype = {"int": "int64", "float": "float64"}.get(dtype, dtype)
    if dtype in ("bool", "|b1"):
        return DType("|b1", 1)
    for name, kind in _KINDS.items():
        bits = dtype[len(name):]
        if dtype.startswith(name) and bits in [str(8 * each) for each in _BYTES[kind]]:
            return _numbers(kind, int(bits) // 8)
    if len(dtype) in (2, 3, 4) and dtype.lstrip("<>|=")[:1] in "iufc":
        code = dtype.lstrip("<>|=")
        if (code[1:] in [str(each) for each in _BYTES[code[0]]]
                and dtype[0] in ("=", "|", _ORDER, code[0])):
            return _numbers(code[0], int(code[1:]))
    raise InvalidArgumentError(
        f"{dtype!r} is no type of elements; allowed without numpy: bool, int8 to int64, uint8 to "
        "uint64, float16 to float64, complex64, complex128, and typestrs such as '<f4'")


def row_shape_of(lengths: Any) -> Tuple[int, ...]:
    """The lengths of a row. Raises TypeError unless they are a sequence of whole numbers."""
    if isinstance(lengths, (str, bytes)) or not hasattr(lengths, "__iter__"):
        raise TypeError(f"row_shape is {type(lengths).__name__}, and must be a tuple such as (3,)")
    return tuple(operator.index(length) for length in lengths)


def row_bytes_of(dtype: DType, row_shape: Sequence[int]) -> int:
    """Bytes of a row of that shape."""
    nbytes = dtype.itemsize
    for length in row_shape:
        if length < 1:
            raise InvalidArgumentError(f"row_shape is {tuple(row_shape)}: lengths begin with 1")
        nbytes *= length
    return nbytes


def torch_bytes_of(dtype: Any) -> int:
    """Bytes of an element of a tensor."""
    import torch

    try:
        return int(torch.empty(0, dtype=dtype).element_size())
    except TypeError as failure:
        raise InvalidArgumentError(
            f"dtype is {dtype!r}, and must be one of PyTorch, such as torch.float16") from failure


def require_elements(source: Any, dtype: DType) -> None:
    """Raises InvalidArgumentError unless an object with a buffer has such elements, or bytes."""
    view = memoryview(source)
    code = view.format.lstrip("@=" + _ORDER)
    kind = next((kind for kind, codes in (("i", "bhilqn"), ("u", "BHILQN"), ("f", "efd"),
                                          ("b", "?")) if code in codes), "")
    if code not in ("B", "b", "c") and (kind, view.itemsize) != (dtype.typestr[1], dtype.itemsize):
        raise InvalidArgumentError(
            f"the elements are {view.format!r} by the module struct, those of the array "
            f"{dtype.typestr}")


def _numbers(kind: str, itemsize: int) -> DType:
    return DType(("|" if itemsize == 1 else _ORDER) + kind + str(itemsize), itemsize)
