// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

constexpr int inherited = 57;
constexpr const char* importer = "imports a pool and one of its blocks";
constexpr const char* data_variable = "HIPVMM_TEST_POINTER_DATA";

class shared_pool {
 public:
  explicit shared_pool(hipMemAllocationHandleType type = posix) {
    hipMemPoolProps wanted{};
    wanted.allocType = hipMemAllocationTypePinned;
    wanted.location = {hipMemLocationTypeDevice, 0};
    wanted.handleTypes = type;
    REQUIRE(hipMemPoolCreate(&pool_, &wanted) == hipSuccess);
    REQUIRE(hipMallocFromPoolAsync(&block_, granule(), pool_, nullptr) == hipSuccess);
    REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  }
  ~shared_pool() {
    CHECK(hipFree(block_) == hipSuccess);
    CHECK(hipMemPoolDestroy(pool_) == hipSuccess);
  }
  shared_pool& operator=(shared_pool&&) = delete;
  [[nodiscard]] hipMemPool_t get() const { return pool_; }
  [[nodiscard]] std::byte* block() const { return static_cast<std::byte*>(block_); }

 private:
  hipMemPool_t pool_ = nullptr;
  void* block_ = nullptr;
};

hipError_t export_pool(const shared_pool& pool, int type = posix, unsigned flags = 0) {
  int descriptor = -1;
  const hipError_t code = hipMemPoolExportToShareableHandle(
      &descriptor, pool.get(), no_such<hipMemAllocationHandleType>(type), flags);
  if (code == hipSuccess) ::close(descriptor);
  return code;
}

std::string hex(const hipMemPoolPtrExportData& data) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : data.reserved) {
    text += digits[byte >> 4U];
    text += digits[byte & 0xFU];
  }
  return text;
}

hipMemPoolPtrExportData from_hex(const std::string& text) {
  hipMemPoolPtrExportData data{};
  for (std::size_t i = 0; i < sizeof(data.reserved); ++i) {
    data.reserved[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return data;
}

}  // namespace

TEST_CASE("shared pool: its arguments") {
  const shared_pool shared;
  const shared_pool alone{hipMemHandleTypeNone};
  const allocation plain{4096};
  hipMemPoolPtrExportData data{};
  hipMemPool_t imported = nullptr;
  check_rules({
      {"export", [&] { return export_pool(shared); }, hipSuccess},
      {"export with flags", [&] { return export_pool(shared, posix, 1); }},
      {"export as nothing", [&] { return export_pool(shared, 0); }},
      {"export one that is not shareable", [&] { return export_pool(alone); }},
      {"export a block", [&] { return hipMemPoolExportPointer(&data, shared.block()); },
       hipSuccess},
      {"export a block of a pool that is not shareable",
       [&] { return hipMemPoolExportPointer(&data, alone.block()); }},
      {"export memory of hipMalloc", [&] { return hipMemPoolExportPointer(&data, plain.get()); }},
      {"export null", [&] { return hipMemPoolExportPointer(&data, nullptr); }},
      {"import null",
       [&] { return hipMemPoolImportFromShareableHandle(&imported, nullptr, posix, 0); }},
  });
}

TEST_CASE("shared pool: a block is read and written in another process") {
  const shared_pool shared;
  REQUIRE(fill_and_wait(shared.block(), 0x21, granule()) == hipSuccess);
  int descriptor = -1;
  REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, shared.get(), posix, 0) == hipSuccess);
  hipMemPoolPtrExportData data{};
  REQUIRE(hipMemPoolExportPointer(&data, shared.block()) == hipSuccess);
  const child_result child = run_child(importer, {std::string{data_variable} + "=" + hex(data)},
                                       {{descriptor, inherited}});
  ::close(descriptor);
  CAPTURE(child.output);
  CHECK(passed(child));
  CHECK(byte_at(shared.block() + 5) == 0x43);
}

HIPVMM_CHILD("imports a pool and one of its blocks") {
  hipMemPool_t pool = nullptr;
  REQUIRE(hipMemPoolImportFromShareableHandle(
              &pool, reinterpret_cast<void*>(std::uintptr_t{inherited}), posix, 0) == hipSuccess);
  hipMemAccessFlags flags{};
  hipMemLocation here{hipMemLocationTypeDevice, 0};
  REQUIRE(hipMemPoolGetAccess(&flags, pool, &here) == hipSuccess);
  CHECK(flags == hipMemAccessFlagsProtReadWrite);
  hipMemPoolPtrExportData data = from_hex(std::getenv(data_variable));
  void* block = nullptr;
  REQUIRE(hipMemPoolImportPointer(&block, pool, &data) == hipSuccess);
  CHECK(byte_at(block) == 0x21);
  CHECK(fill_and_wait(block, 0x43, 64) == hipSuccess);
  void* fresh = nullptr;
  check_rules({{"new memory of an imported pool",
                [&] { return hipMallocFromPoolAsync(&fresh, 4096, pool, nullptr); },
                {hipSuccess, hipErrorInvalidValue}},
               {"an imported pool made current", [&] { return hipDeviceSetMemPool(0, pool); }}});
  if (fresh != nullptr) CHECK(hipFree(fresh) == hipSuccess);
  CHECK(hipFree(block) == hipSuccess);
  CHECK(hipMemPoolDestroy(pool) == hipSuccess);
}
