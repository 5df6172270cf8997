// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "managed_fixture.hpp"
#include "providers/host/tests/graph/capture_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr const char* handle_variable = "HIPVMM_TEST_IPC_HANDLE";
constexpr std::size_t shared_bytes = 3 * page + 100;

hipIpcMemHandle_t handle_of(const allocation& memory) {
  hipIpcMemHandle_t handle{};
  REQUIRE(hipIpcGetMemHandle(&handle, memory.at()) == hipSuccess);
  return handle;
}

std::string text_of(const hipIpcMemHandle_t& handle) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char each : handle.reserved) {
    const auto value = static_cast<unsigned char>(each);
    text += digits[value >> 4U];
    text += digits[value & 15U];
  }
  return text;
}

hipIpcMemHandle_t inherited_handle() {
  const char* const text = std::getenv(handle_variable);
  REQUIRE(text != nullptr);
  hipIpcMemHandle_t handle{};
  for (std::size_t i = 0; i < sizeof(handle.reserved); ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(std::string{text + 2 * i, 2}, nullptr, 16));
  }
  return handle;
}

child_result run_with(const char* name, const hipIpcMemHandle_t& handle) {
  return run_child(name, {std::string{handle_variable} + "=" + text_of(handle)});
}

class opened {
 public:
  opened() {
    REQUIRE(hipIpcOpenMemHandle(&start_, inherited_handle(), hipIpcMemLazyEnablePeerAccess) ==
            hipSuccess);
  }
  opened& operator=(opened&&) = delete;
  ~opened() { CHECK(hipIpcCloseMemHandle(start_) == hipSuccess); }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(start_) + offset;
  }

 private:
  void* start_ = nullptr;
};

}  // namespace

TIDY_CASE("hipIpcGetMemHandle: what is not the start of hipMalloc memory is refused") {
  const allocation device{2 * page};
  const mapped chunk{granule};
  const managed unified{page};
  const pinned host{page};
  int pageable = 0;
  hipIpcMemHandle_t handle{};
  check_refusals({
      {"null handle", hipIpcGetMemHandle(nullptr, device.at())},
      {"null pointer", hipIpcGetMemHandle(&handle, nullptr)},
      {"the middle", hipIpcGetMemHandle(&handle, device.at(page))},
      {"a chunk", hipIpcGetMemHandle(&handle, chunk.at())},
      {"managed memory", hipIpcGetMemHandle(&handle, unified.at())},
      {"pinned memory", hipIpcGetMemHandle(&handle, host.at())},
      {"pageable memory", hipIpcGetMemHandle(&handle, &pageable)},
  });
}

TIDY_CASE("hipIpcOpenMemHandle: arguments outside the rules are refused") {
  const allocation device{page};
  const hipIpcMemHandle_t handle = handle_of(device);
  void* pointer = nullptr;
  check_refusals({
      {"null", hipIpcOpenMemHandle(nullptr, handle, hipIpcMemLazyEnablePeerAccess)},
      {"flags", hipIpcOpenMemHandle(&pointer, handle, 123)},
      {"zeros", hipIpcOpenMemHandle(&pointer, {}, hipIpcMemLazyEnablePeerAccess)},
      {"in the exporting process",
       hipIpcOpenMemHandle(&pointer, handle, hipIpcMemLazyEnablePeerAccess),
       hipErrorInvalidContext},
  });
}

TIDY_CASE("hipIpcCloseMemHandle: memory that was not opened is refused") {
  const allocation device{page};
  int pageable = 0;
  check_refusals({
      {"null", hipIpcCloseMemHandle(nullptr)},
      {"own memory", hipIpcCloseMemHandle(device.at())},
      {"pageable memory", hipIpcCloseMemHandle(&pageable)},
  });
}

HIPVMM_CHILD("opens memory and answers through it") {
  const nothing_left check;
  const opened memory;
  CHECK(live_objects().ipc_imports == 1);
  CHECK(hipvmm_host_device_bytes(1) == 0);
  CHECK(hipFree(memory.at()) == hipErrorInvalidValue);
  CHECK(hipIpcCloseMemHandle(memory.at(page)) == hipErrorInvalidValue);
  std::vector<std::byte> seen(shared_bytes);
  REQUIRE(hipMemcpy(seen.data(), memory.at(), shared_bytes, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(equal(seen.data(), counted_bytes(shared_bytes)));
  CHECK(hipMemset(memory.at(), 9, shared_bytes) == hipErrorInvalidValue);  // device 0, no peer yet
  REQUIRE(hipSetDevice(1) == hipSuccess);
  CHECK(hipMemset(memory.at(), 9, shared_bytes + 1) == hipErrorInvalidValue);
  CHECK(hipMemset(memory.at(), 9, shared_bytes) == hipSuccess);
  const stream captured;
  begin_capture(captured.get());
  CHECK(hipIpcCloseMemHandle(memory.at()) == hipErrorStreamCaptureUnsupported);
  end_capture_with(hipErrorStreamCaptureInvalidated, captured.get());
}

TIDY_CASE("hipIpcOpenMemHandle: another process reads and writes the memory") {
  const allocation before{page, 1};
  const allocation shared{shared_bytes, 1};
  const allocation after{page, 1};
  const std::vector<std::byte> data = counted_bytes(shared_bytes);
  REQUIRE(hipMemcpy(shared.at(), data.data(), shared_bytes, hipMemcpyHostToDevice) == hipSuccess);
  REQUIRE(hipMemset(before.at(), 1, page) == hipErrorInvalidValue);
  const child_result result = run_with("opens memory and answers through it", handle_of(shared));
  INFO(result.output);
  CHECK(passed(result));
  CHECK(equal(shared.at(), bytes_of(shared_bytes, 9)));
  CHECK(equal(before.at(), bytes_of(page, 0)));
  CHECK(equal(after.at(), bytes_of(page, 0)));
}

HIPVMM_CHILD("opens memory that is not there any more") {
  const nothing_left check;
  void* pointer = nullptr;
  CHECK(hipIpcOpenMemHandle(&pointer, inherited_handle(), hipIpcMemLazyEnablePeerAccess) ==
        hipErrorInvalidDevicePointer);
}

TIDY_CASE("hipIpcOpenMemHandle: a handle whose file is another one is refused") {
  const allocation device{page};
  hipIpcMemHandle_t handle = handle_of(device);
  const int other = memfd_create("other", MFD_CLOEXEC);
  REQUIRE(other >= 0);
  std::memcpy(handle.reserved + 12, &other, sizeof(other));
  const child_result result = run_with("opens memory that is not there any more", handle);
  close(other);
  INFO(result.output);
  CHECK(passed(result));
}
