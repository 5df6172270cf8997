// SPDX-License-Identifier: MIT
// Calls with an argument that HIP can check and refuse: each in a process of its own.
#include "virtual_memory.hpp"  // IWYU pragma: keep: HIP, with names that older headers lack

namespace {

void* result = nullptr;
std::size_t size = 0;
hipMemGenericAllocationHandle_t handle{};
const auto no_stream = reinterpret_cast<hipStream_t>(0x1230);

void* allocated() {
  REQUIRE(hipMalloc(&result, 4096));
  return result;
}
void* managed() {
  REQUIRE(hipMallocManaged(&result, 4096, hipMemAttachGlobal));
  return result;
}

struct question {
  const char* name;
  hipError_t (*ask)();
};
const question questions[] = {
    {"hipMemGetAddressRange with a null base",
     [] { return hipMemGetAddressRange(nullptr, &size, allocated()); }},
    {"import of 12345, which is no descriptor",
     [] {
       return hipMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(12345),
                                              hipMemHandleTypePosixFileDescriptor);
     }},
    {"hipMemAddressFree of hipMalloc's memory",
     [] { return hipMemAddressFree(allocated(), 4096); }},
    {"hipMemRetainAllocationHandle of the same",
     [] { return hipMemRetainAllocationHandle(&handle, allocated()); }},
    {"hipMallocAsync in no stream", [] { return hipMallocAsync(&result, 4096, no_stream); }},
    {"hipMemPrefetchAsync in no stream",
     [] { return hipMemPrefetchAsync(managed(), 4096, 0, no_stream); }}};

}  // namespace

int main() {
  const int status = in_child([] { return begin("a wrong argument is an error, and no crash"); });
  if (status != 0) return status;
  int crashes = 0;
  for (const question& each : questions) {
    std::printf("got       %-42s ", each.name);
    const int ended = in_child([&each] {
      std::puts(hipGetErrorName(each.ask()));
      return 0;
    });
    if (ended > 128) ++crashes;
  }
  if (crashes != 0) finish(defect_seen, std::to_string(crashes) + " of 6 calls crashed");
  finish(as_documented, "none crashed");
}
