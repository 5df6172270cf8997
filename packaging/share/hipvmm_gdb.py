# SPDX-License-Identifier: MIT
"""Printers for gdb: growable_device_vector, region and vmm_pool_resource.

In gdb, or .gdbinit: source PREFIX/share/hipvmm/hipvmm_gdb.py
Sizes of a region and addresses come from calls in the process, which take no lock; of a core file they
are left out. A pool is described by the debug information of the library alone, because its functions
take locks.
"""
import re

import gdb


def member(value, name):
    """A member of the value or of one of its bases, or None."""
    try:
        return value[name]
    except gdb.error:
        return None


def call(value, expression):
    """The result of a call in the process, or None where there is none or the call is missing."""
    try:
        pointer = f"(('{value.type.strip_typedefs().unqualified()}'*){int(value.address)})"
        return gdb.parse_and_eval(f"{pointer}->{expression}")
    except gdb.error:
        return None


def device_of(value):
    device = member(value, "device_")
    device = member(value, "device") if device is None else device
    return "" if device is None else f" on device {int(device['ordinal_'])}"


class VectorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        size = int(self.value["size_"])
        element = self.value.type.strip_typedefs().template_argument(0)
        text = f"{size} elements of {element}, {size * element.sizeof} bytes{device_of(self.value)}"
        storage = gdb.lookup_type("hipvmm::growable_storage")
        backed = call(self.value.cast(storage), "capacity_bytes()") if self.value.address else None
        return text if backed is None else f"{text}; {int(backed)} bytes are backed"


class RegionPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        base = call(self.value, "base()")
        if base is None:
            return "region"
        backed, limit = call(self.value, "committed_bytes()"), call(self.value, "max_bytes()")
        chunks = call(self.value, "chunk_count()")
        return (f"{int(backed)} of {int(limit)} bytes from {int(base):#x} on are backed, "
                f"by {int(chunks)} chunks")


class PoolPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        try:
            pointer = gdb.lookup_type("hipvmm::mr::vmm_pool_resource::state").pointer()
            state = self.value["state_"].address.cast(pointer.pointer()).dereference().dereference()
            return f"pool{device_of(state) or device_of(self.value)}, state at {int(state.address):#x}"
        except gdb.error:
            return "pool; call its report() while no thread is in it"


PRINTERS = [(re.compile(pattern), printer) for pattern, printer in (
    (r"^hipvmm::growable_device_vector<.*>$", VectorPrinter),
    (r"^hipvmm::region$", RegionPrinter),
    (r"^hipvmm::mr::vmm_pool_resource$", PoolPrinter))]


def find_printer(value):
    name = str(value.type.strip_typedefs().unqualified())
    for pattern, printer in PRINTERS:
        if pattern.match(name):
            return printer(value)
    return None


find_printer.__name__ = "hipvmm"
gdb.pretty_printers.append(find_printer)
