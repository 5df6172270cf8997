# SPDX-License-Identifier: MIT
"""Evictable memory by its tag, and modules of PyTorch."""

import gc
import itertools
import os

import pytest

import hipvmm
import hipvmm.torch
from transformers_support import MIB, needs_growth, torch

pytestmark = needs_growth
numbers = itertools.count()


@pytest.fixture
def budget():
    with hipvmm.MemoryBudget(f"evictable-{os.getpid()}-{next(numbers)}", 1 * MIB) as made:
        # Resources of other files may hold memory for as long as the process lives, or until a
        # collection, which must not make room later.
        gc.collect()
        hipvmm.drain_retired_memory()
        made.make_room(1 * MIB)  # the process keeps no more than these
        made.set_limit(made.statistics().own_bytes + 16 * MIB)
        yield made


def array(nbytes):
    """An array of a tag of its own, filled with threes, and that tag."""
    tag = f"evictable {next(numbers)}"
    made = hipvmm.GrowableArray("uint8", sleep_tag=tag, step_limit=0)
    made.append(bytes([3]) * nbytes)
    return made, tag


def test_it_leaves_for_a_request_and_comes_back(budget):
    data, tag = array(8 * MIB)
    held = hipvmm.Evictable(tag, priority=2)
    with pytest.raises(hipvmm.InvalidStateError, match="may be evicted"):
        data.append(b"x")
    hipvmm.synchronize()
    other, _ = array(12 * MIB)
    assert hipvmm.tag_statistics(tag).is_asleep
    with pytest.raises(hipvmm.OutOfMemoryError):
        held.use()
    other.close()
    hipvmm.drain_retired_memory()
    address = data.ptr
    with held.use(writes=False):
        assert data.ptr == address and bytes(data.copy_to_host()) == bytes([3]) * (8 * MIB)
    now = held.statistics()
    assert (now.evictions, now.returns, now.reason) == (1, 1, "")


def layer(value, nbytes=4 * MIB - 4096):
    made = torch.nn.Linear(1, nbytes // 4, bias=True)
    made.register_buffer("table", torch.full((3,), value))
    with torch.no_grad():
        made.weight.fill_(value)
        made.bias.fill_(value)
    return made


def test_modules_take_turns(budget):
    layers = [layer(float(n)) for n in range(4)]  # 8 MiB each
    held = [hipvmm.torch.evictable(each, priority=n == 0) for n, each in enumerate(layers)]
    addresses = [each.weight.data_ptr() for each in layers]
    for _ in range(2):
        for n, (each, memory) in enumerate(zip(layers, held)):
            with memory.use(writes=False):
                assert each.weight.data_ptr() == addresses[n]
                assert bool((each(torch.ones(1, 1, device=each.weight.device)) == 2 * n).all())
                assert each.table.tolist() == [n] * 3
            hipvmm.synchronize()  # or the first goes, while work of the others may still run
    # The first has priority.
    evictions = [each.statistics().evictions for each in held]
    assert evictions[1] >= 2 and evictions[0] < max(evictions)
    with held[0].use(), held[1].use():
        assert not held[2].prefetch()
        with pytest.raises(hipvmm.OutOfMemoryError):
            held[2].use()
    with held[2].use():
        assert bool((layers[2].bias == 2).all())


def test_a_function_fills(budget):
    module = layer(1.0)

    def fill(stream):
        if error:
            raise ValueError("no file")
        module.weight.data.fill_(7.0)

    error = []
    held = hipvmm.torch.evictable(module, fill=fill)
    others = [hipvmm.torch.evictable(layer(2.0)) for _ in range(2)]
    assert held.statistics().evictions == 1
    error.append(True)
    with pytest.raises(ValueError, match="no file"):
        held.use()
    error.clear()
    with held.use(writes=False):
        assert bool((module.weight == 7).all())
    assert others[0].statistics().evictions == 1


def test_misuse():
    with pytest.raises(hipvmm.InvalidArgumentError):
        hipvmm.Evictable("misuse", fill=3)
    with pytest.raises(hipvmm.InvalidArgumentError):
        hipvmm.torch.evictable(torch.nn.ReLU())
    held = hipvmm.Evictable("misuse")
    with pytest.raises(hipvmm.InvalidArgumentError, match="has one already"):
        hipvmm.Evictable("misuse")
    use = held.use()
    use.done()
    use.done()
    held.close()
    with pytest.raises(hipvmm.InvalidHandleError):
        held.prefetch()


def test_strides_and_views_stay(budget):
    module = torch.nn.Module()
    flat = torch.arange(48.0)
    module.flat = torch.nn.Parameter(flat)
    module.turned = torch.nn.Parameter(flat[8:40].view(4, 8).t())
    module.images = torch.nn.Parameter(
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    module.first, module.second = torch.nn.Linear(3, 5), torch.nn.Linear(3, 5)
    module.second.weight = module.first.weight
    module.register_buffer("row", torch.randn(1, 6).expand(4, 6))
    module.register_buffer("gaps", torch.arange(20, dtype=torch.int16)[3::4])
    module.register_buffer("none", torch.empty(0, 4))
    before = {name: each.detach().clone() for name, each in module.state_dict().items()}
    strides = {name: each.stride() for name, each in module.state_dict().items()}
    held = hipvmm.torch.evictable(module)
    other, _ = array(15 * MIB)
    assert held.statistics().evictions == 1
    other.close()
    with held.use():
        after = module.state_dict()
        assert {name: each.stride() for name, each in after.items()} == strides
        assert all(torch.equal(after[name].cpu(), each) for name, each in before.items())
        assert module.second.weight is module.first.weight
        assert module.images.is_contiguous(memory_format=torch.channels_last)
        module.turned.data[0, 0] = -1.0
        assert module.flat[8].item() == -1.0
    shared = torch.nn.Linear(3, 5)
    shared.weight = module.first.weight
    with pytest.raises(hipvmm.InvalidArgumentError, match="make one of both"):
        hipvmm.torch.evictable(shared)
    shared = torch.nn.Module()
    shared.register_buffer("sparse", torch.eye(3).to_sparse())
    with pytest.raises(hipvmm.InvalidArgumentError, match="make it dense"):
        hipvmm.torch.evictable(shared)


def test_a_use_that_is_dropped_is_done(budget):
    data, tag = array(8 * MIB)
    held = hipvmm.Evictable(tag)
    with pytest.warns(ResourceWarning, match="before done"):
        held.use()
        gc.collect()
    hipvmm.synchronize()
    array(12 * MIB)
    assert hipvmm.tag_statistics(tag).is_asleep


def test_gradients_move_along():
    module = layer(1.0)

    class Moved(torch.Tensor):  # as one of another device
        def to(self, device):
            return torch.ones(self.shape)

    module.weight.grad = torch.zeros_like(module.weight).as_subclass(Moved)
    hipvmm.torch.evictable(module)
    assert bool(module.weight.grad.all()) and module.bias.grad is None
