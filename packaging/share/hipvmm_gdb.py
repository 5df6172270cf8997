# SPDX-License-Identifier: MIT
"""Printers for gdb: growable_device_vector, region and vmm_pool_resource.

In gdb, or .gdbinit: source PREFIX/share/hipvmm/hipvmm_gdb.py
They read members by the debug information of the library, of core files too, and call nothing: a
function would wait for a lock that the stopped thread may have.
"""
import re

import gdb


def member(value, name):
    """A member of the value or of one of its bases, or None."""
    try:
        return value[name]
    except gdb.error:
        return None


def behind(pointer, type_name):
    """The object of that type to which a smart pointer points first of all; gdb.error without its type."""
    if pointer.address is None:
        raise gdb.error("the value is in no memory")
    named = gdb.lookup_type(type_name).pointer().pointer()
    return pointer.address.cast(named).dereference().dereference()


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
        try:
            memory = behind(self.value["memory_"], "hipvmm::detail::storage_memory")
            region = memory.cast(memory.dynamic_type)["region_"]
            state = behind(region["state_"], "hipvmm::detail::region_state")
            return f"{text}; {int(state['committed'])} bytes are backed"
        except gdb.error:  # without debug information, or on hipMalloc
            return text


class RegionPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        try:
            state = behind(self.value["state_"], "hipvmm::detail::region_state")
            range_ = behind(state["addresses"], "hipvmm::address_range")
            return (f"{int(state['committed'])} of {int(range_['bytes_'])} bytes from "
                    f"{int(range_['base_']):#x} on are backed")
        except gdb.error:
            return "region; its members need the library's debug information"


class PoolPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        try:
            state = behind(self.value["state_"], "hipvmm::mr::vmm_pool_resource::state")
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
