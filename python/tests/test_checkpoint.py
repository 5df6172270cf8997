# SPDX-License-Identifier: MIT
"""Memory of a tag that another process has at the same addresses."""

import json
import multiprocessing

import pytest

import hipvmm
from transformers_support import needs_growth

pytestmark = needs_growth


def load(path, results):
    try:
        with hipvmm.Checkpoint(path, tag="loaded") as loaded:
            address, count = json.loads(loaded.notes)
            array = loaded.array(address, (count,), "int32")
            copied = hipvmm.GrowableArray("int32")
            copied.append(array)
            results.put((list(copied.copy_to_host()), hipvmm.tag_statistics("loaded").objects))
    except Exception as error:
        results.put(error)


def test_another_process_has_the_array(tmp_path):
    path = tmp_path / "memory"
    with hipvmm.GrowableArray("int32", sleep_tag="saved") as data:
        data.append([0, 1, 2, 3, 4])
        assert hipvmm.save_checkpoint("saved", path, json.dumps([data.ptr, 5])) >= 20
        with pytest.raises(hipvmm.OutOfMemoryError, match="the addresses from"):
            hipvmm.Checkpoint(path)
        with pytest.raises(hipvmm.InvalidArgumentError, match="a zero"):
            hipvmm.save_checkpoint("saved", path, "\0")
    others = multiprocessing.get_context("spawn")
    results = others.Queue()
    child = others.Process(target=load, args=(path, results))
    child.start()
    assert results.get(timeout=60) == ([0, 1, 2, 3, 4], 1)
    child.join()


def test_a_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "memory"
    path.write_bytes(b"x" * 100)
    with pytest.raises(hipvmm.InvalidArgumentError, match="checkpoint"):
        hipvmm.Checkpoint(path)
    with pytest.raises(hipvmm.SystemFailureError):
        hipvmm.Checkpoint(tmp_path / "missing")
