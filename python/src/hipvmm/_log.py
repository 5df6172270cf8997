# SPDX-License-Identifier: MIT
"""The debug log of the library, about its memory operations."""

from __future__ import annotations

import ctypes
import enum
from typing import Union

from ._errors import InvalidArgumentError
from ._library import lib, text_bytes

__all__ = [
    "LoggingLevel",
    "flush_logger",
    "get_flush_level",
    "get_logging_level",
    "log",
    "logging_level",
    "set_flush_level",
    "set_logging_level",
    "should_log",
]


class LoggingLevel(enum.IntEnum):
    """Levels of lines. Those below the library's HIPVMM_LOGGING_LEVEL are not compiled into it."""

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    critical = 5
    off = 6


# The name in RMM.
logging_level = LoggingLevel


def _level(level: Union[str, int]) -> LoggingLevel:
    try:
        return LoggingLevel[level] if isinstance(level, str) else LoggingLevel(level)
    except (KeyError, ValueError):
        raise InvalidArgumentError(
            f"{level!r} is no level; allowed: {', '.join(LoggingLevel.__members__)}") from None


def set_logging_level(level: Union[str, int]) -> None:
    """Enables lines of that level and above: "trace", "debug", "info" and so on."""
    lib().set_logging_level(_level(level).name.encode())


def get_logging_level() -> LoggingLevel:
    """The least level that is enabled."""
    name = ctypes.c_char_p()
    lib().logging_level(ctypes.byref(name))
    return LoggingLevel[(name.value or b"off").decode()]


def should_log(level: Union[str, int]) -> bool:
    """Whether a line of that level would be written."""
    return LoggingLevel.off != _level(level) >= get_logging_level()


def log(level: Union[str, int], line: str) -> None:
    """Writes a line, unless its level is disabled."""
    lib().log(_level(level).name.encode(), text_bytes("the line", line))


def flush_logger() -> None:
    """Writes buffered lines."""
    lib().flush_log()


_flush_level = LoggingLevel.trace


def set_flush_level(level: Union[str, int]) -> None:
    """Keeps the level for get_flush_level(): each line is written at once. For programs of RMM's."""
    global _flush_level
    _flush_level = _level(level)


def get_flush_level() -> LoggingLevel:
    """The last argument of set_flush_level(); "trace" before."""
    return _flush_level
