# SPDX-License-Identifier: MIT
"""Tests of the package on the host provider, or on whatever HIPVMM_LIBRARY is."""

import gc
import os
import subprocess
import sys

import pytest

import hipvmm


@pytest.fixture(autouse=True)
def resources_are_restored():
    """Each test begins and ends with hipMalloc for each device, and leaves no handle."""
    yield
    for device in range(hipvmm.device_count()):
        hipvmm.mr.set_per_device_resource(device, None)


@pytest.fixture
def run_python():
    """Runs a script in a process of its own, and returns what it printed."""

    def run(script, *, status=0, arguments=(), **environment):
        result = subprocess.run(
            [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=120, env={**os.environ, **environment})
        assert result.returncode == status, result.stdout
        return result.stdout

    return run


@pytest.fixture
def run_under_profile(run_python):
    """Runs tests of some files in a process with a profile of the host provider, none is skipped."""

    def run(profile, words, *files):
        folder = os.path.dirname(os.path.abspath(__file__))
        printed = run_python(
            "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
            arguments=["-q", "-p", "no:cacheprovider", "-k", words,
                       *(os.path.join(folder, each) for each in files)],
            HIPVMM_HOST_PROFILE=profile, HIPVMM_HOST_MEMORY="1GiB",
            # PyTorch on the CPU stands for the one of a GPU.
            HIPVMM_HOST_TOUCH="devices")
        assert " passed" in printed and "skipped" not in printed, printed

    return run


needs_chunks = pytest.mark.skipif(
    "path: fallback" in hipvmm.capability(0), reason="there is no virtual memory")
needs_host_access = pytest.mark.skipif(
    not hipvmm.is_host_accessible(0), reason="host code may not use memory of the device")


def exported():
    """The DLPack tensors that live."""
    from hipvmm import _dlpack

    return sum(type(each) is _dlpack._Exported for each in gc.get_objects())
