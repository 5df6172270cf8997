// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

constexpr int inherited_chunk = 58;
constexpr const char* chunk_importer = "imports a chunk";
constexpr const char* opener = "opens memory of hipMalloc";
constexpr const char* handle_variable = "HIPVMM_TEST_MEMORY_HANDLE";

hipError_t export_chunk(const chunk& from, int type = posix, unsigned long long flags = 0) {
  int descriptor = -1;
  const hipError_t code = hipMemExportToShareableHandle(
      &descriptor, from.get(), no_such<hipMemAllocationHandleType>(type), flags);
  if (code == hipSuccess) ::close(descriptor);
  return code;
}

hipError_t import_chunk(void* os_handle, int type = posix) {
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipError_t code = hipMemImportFromShareableHandle(
      &handle, os_handle, no_such<hipMemAllocationHandleType>(type));
  if (code == hipSuccess) REQUIRE(hipMemRelease(handle) == hipSuccess);
  return code;
}

void* value_of(int descriptor) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor));
}

std::string text_of(const hipIpcMemHandle_t& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    text += std::to_string(static_cast<unsigned char>(byte)) + ".";
  }
  return text;
}

hipIpcMemHandle_t handle_from(const std::string& text) {
  hipIpcMemHandle_t handle{};
  std::size_t at = 0;
  for (char& byte : handle.reserved) {
    byte = static_cast<char>(std::stoi(text.substr(at)));
    at = text.find('.', at) + 1;
  }
  return handle;
}

}  // namespace

TEST_CASE("shared chunk: its arguments") {
  const chunk shared{1, 0, posix};
  const chunk alone;
  int descriptor = -1;
  REQUIRE(hipMemExportToShareableHandle(&descriptor, shared.get(), posix, 0) == hipSuccess);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  check_rules({
      {"export", [&] { return export_chunk(shared); }, hipSuccess},
      {"export with flags", [&] { return export_chunk(shared, posix, 1); }},
      {"export as nothing", [&] { return export_chunk(shared, 0); }},
      {"export one that is not shareable", [&] { return export_chunk(alone); }},
      {"export null",
       [&] { return hipMemExportToShareableHandle(&descriptor, nullptr, posix, 0); }},
      {"import by value", [&] { return import_chunk(value_of(descriptor)); }, hipSuccess},
      {"import as nothing", [&] { return import_chunk(value_of(descriptor), 0); }},
      {"import a pipe",
       [&] { return import_chunk(value_of(pipe[0])); },
       {hipErrorInvalidValue, hipErrorUnknown}},
      {"import a descriptor that is closed",
       [] { return import_chunk(value_of(900)); },
       {hipErrorInvalidValue, hipErrorUnknown}},
  });
  // The profile takes the descriptor's value alone, as CUDA does; the cuda provider both forms.
  if (host_profile() != "cuda-13") {
    check_rules({
        {"import by a pointer to it", [&] { return import_chunk(&descriptor); }, hipSuccess},
        {"import null", [] { return import_chunk(nullptr); }},
    });
  }
  ::close(descriptor);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("shared chunk: every descriptor is a new one that closes on exec") {
  const chunk shared{1, 0, posix};
  int first = -1;
  int second = -1;
  REQUIRE(hipMemExportToShareableHandle(&first, shared.get(), posix, 0) == hipSuccess);
  REQUIRE(hipMemExportToShareableHandle(&second, shared.get(), posix, 0) == hipSuccess);
  CHECK(first != second);
  CHECK((::fcntl(first, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(first);
  ::close(second);
}

TEST_CASE("shared chunk: another process maps the same bytes") {
  mapped one{1, 0, 0, posix};
  one.open();
  REQUIRE(fill_and_wait(one.at(), 0x35, granule()) == hipSuccess);
  int descriptor = -1;
  REQUIRE(hipMemExportToShareableHandle(&descriptor, one.handle(), posix, 0) == hipSuccess);
  const child_result child = run_child(chunk_importer, {}, {{descriptor, inherited_chunk}});
  ::close(descriptor);
  CAPTURE(child.output);
  CHECK(passed(child));
  CHECK(byte_at(one.at(0, 3)) == 0x53);
}

HIPVMM_CHILD("imports a chunk") {
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemImportFromShareableHandle(&handle, value_of(inherited_chunk), posix) == hipSuccess);
  hipMemAllocationProp found{};
  REQUIRE(hipMemGetAllocationPropertiesFromHandle(&found, handle) == hipSuccess);
  CHECK(found.location.id == 0);
  const addresses place{1};
  REQUIRE(hipMemMap(place.at(0), granule(), 0, handle, 0) == hipSuccess);
  const hipMemAccessDesc wanted = open_to(0);
  REQUIRE(hipMemSetAccess(place.at(0), granule(), &wanted, 1) == hipSuccess);
  CHECK(byte_at(place.at(0, 100)) == 0x35);
  CHECK(fill_and_wait(place.at(0), 0x53, 64) == hipSuccess);
  CHECK(hipMemUnmap(place.at(0), granule()) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TEST_CASE("shared hipMalloc memory: its arguments") {
  const allocation plain{granule()};
  const mapped one{1, 0, 0, posix};
  hipIpcMemHandle_t handle{};
  void* opened = nullptr;
  check_rules({
      {"of hipMalloc", [&] { return hipIpcGetMemHandle(&handle, plain.get()); }, hipSuccess},
      {"of a chunk",
       [&] {
         hipIpcMemHandle_t other{};
         return hipIpcGetMemHandle(&other, one.at());
       }},
      {"of null",
       [&] {
         hipIpcMemHandle_t other{};
         return hipIpcGetMemHandle(&other, nullptr);
       }},
      {"from its middle",
       [&] {
         hipIpcMemHandle_t other{};
         return hipIpcGetMemHandle(&other, plain.get() + 4096);
       },
       {hipErrorInvalidValue, hipSuccess}},
      {"in the process that gave it",
       [&] { return hipIpcOpenMemHandle(&opened, handle, hipIpcMemLazyEnablePeerAccess); },
       hipErrorInvalidContext},
      {"with other flags", [&] { return hipIpcOpenMemHandle(&opened, handle, 6); }},
      {"close what was not opened", [&] { return hipIpcCloseMemHandle(plain.get()); }},
  });
}

TEST_CASE("shared hipMalloc memory: another process reads and writes it") {
  const allocation plain{granule()};
  REQUIRE(fill_and_wait(plain.get(), 0x44, granule()) == hipSuccess);
  hipIpcMemHandle_t handle{};
  REQUIRE(hipIpcGetMemHandle(&handle, plain.get()) == hipSuccess);
  check_child(opener, {std::string{handle_variable} + "=" + text_of(handle)});
  CHECK(byte_at(plain.get() + 7) == 0x66);
}

HIPVMM_CHILD("opens memory of hipMalloc") {
  const hipIpcMemHandle_t handle = handle_from(std::getenv(handle_variable));
  void* opened = nullptr;
  REQUIRE(hipIpcOpenMemHandle(&opened, handle, hipIpcMemLazyEnablePeerAccess) == hipSuccess);
  CHECK(byte_at(opened) == 0x44);
  CHECK(fill_and_wait(opened, 0x66, 64) == hipSuccess);
  CHECK(hipIpcCloseMemHandle(opened) == hipSuccess);
}
