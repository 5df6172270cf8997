// SPDX-License-Identifier: MIT
#include "runtime/host/pinned_memory.hpp"

#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include <hipvmm/region/retirement.hpp>
#include "runtime/host/free_host_memory.hpp"
#include "support/host/host_test.hpp"
#include "support/process/temporary_folder.hpp"

// Memory of the host that is pinned by hipHostMalloc or hipHostRegister.
namespace hipvmm::test {
namespace {

using detail::pinned_memory;

constexpr std::size_t large = 9 * MiB + 4096;

/// Whether the system has as much free memory as pages to register need.
bool has_room() { return detail::free_host_memory() / 8 >= large; }

bool is_mapped(void* page) {
  unsigned char in_memory = 0;
  return ::mincore(page, 1, &in_memory) == 0;
}

TEST_CASE("pinned_memory: from 8 MiB on pages are touched and registered") {
  if (!has_room()) return;
  const call_counter allocated{"hipHostMalloc"};
  const call_counter freed{"hipHostFree"};
  const call_counter registered{"hipHostRegister"};
  const call_counter ended{"hipHostUnregister"};
  { const pinned_memory little{pinned_memory::least_registered - 1}; }
  CHECK(allocated.count() == 1);
  CHECK(freed.count() == 1);
  CHECK(registered.count() == 0);
  void* start = nullptr;
  {
    pinned_memory first{large};
    start = first.get();
    std::vector<unsigned char> pages(large / 4096);
    REQUIRE(::mincore(start, large, pages.data()) == 0);
    for (const unsigned char each : pages) CHECK((each & 1U) == 1);
    unsigned flags = 0;
    CHECK(hipHostGetFlags(&flags, static_cast<std::byte*>(start) + large - 1) == hipSuccess);
    pinned_memory second{std::move(first)};
    CHECK(first.get() == nullptr);
    first = std::move(second);
    CHECK(first.get() == start);
    CHECK(ended.count() == 0);
  }
  CHECK(registered.count() == 1);
  CHECK(ended.count() == 1);
  CHECK_FALSE(is_mapped(start));
  CHECK(allocated.count() == 1);
}

TEST_CASE("pinned_memory: where HIP refuses to register, hipHostMalloc serves") {
  if (!has_room()) return;
  for (const hipError_t error : {hipErrorOutOfMemory, hipErrorNotSupported,
                                 hipErrorHostMemoryAlreadyRegistered, hipErrorUnknown}) {
    const hipvmm_host_counters before = live_objects();
    const error_recorder reported;
    const call_counter freed{"hipHostFree"};
    {
      const planned_fault fault{"hipHostRegister", 1, error};
      const pinned_memory memory{large};
      CHECK(memory.get() != nullptr);
      CHECK(hipPeekAtLastError() == hipSuccess);
      CHECK(live_objects().host_allocations == before.host_allocations + 1);
    }
    CHECK(freed.count() == 1);
    CHECK(live_objects() == before);
    CHECK(reported.count() == 0);
  }
}

TEST_CASE("pinned_memory: pages that HIP does not let go stay mapped until it does") {
  if (!has_room()) return;
  const error_recorder reported;
  void* start = nullptr;
  {
    pinned_memory memory{large};
    start = memory.get();
    const planned_fault fault{"hipHostUnregister", 1, hipErrorUnknown};
    { const pinned_memory moved{std::move(memory)}; }
    CHECK(reported.count() == 1);
    CHECK(is_mapped(start));
  }
  drain_retired_memory();
  CHECK(reported.count() == 1);
  CHECK_FALSE(is_mapped(start));
}

TEST_CASE("pinned_memory: a failed call leaves nothing behind") {
  fault_sweep{"pinned memory"}.run([] { const pinned_memory memory{large}; });
}

class system_files {
 public:
  void set(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }
  [[nodiscard]] std::size_t free_memory() const {
    return detail::free_host_memory(folder_.path().string());
  }

 private:
  temporary_folder folder_;
};

TEST_CASE("free_host_memory: the least of the machine and of the cgroups of the process") {
  CHECK(detail::free_host_memory() > 0);
  const system_files files;
  CHECK(files.free_memory() == 0);
  files.set("proc/meminfo", "MemTotal:  9 kB\nMemFree:  1 kB\nMemAvailable:   1000 kB\n");
  CHECK(files.free_memory() == 1000 * KiB);

  files.set("proc/self/cgroup", "1:name=systemd:/else\n0::/slice/unit\n");
  files.set("sys/fs/cgroup/slice/unit/memory.max", "max\n");
  files.set("sys/fs/cgroup/slice/unit/memory.current", "5000\n");
  CHECK(files.free_memory() == 1000 * KiB);
  files.set("sys/fs/cgroup/slice/memory.max", "20000\n");
  files.set("sys/fs/cgroup/slice/memory.current", "5000\n");
  CHECK(files.free_memory() == 15000);
  files.set("sys/fs/cgroup/slice/memory.stat", "anon 1\nfile 4000\ninactive_file 3000\n");
  CHECK(files.free_memory() == 18000);
  files.set("sys/fs/cgroup/slice/unit/memory.max", "4000\n");
  CHECK(files.free_memory() == 0);

  // In a container without a namespace of cgroups.
  files.set("proc/self/cgroup", "0::/of/machine\n");
  CHECK(files.free_memory() == 1000 * KiB);
  files.set("sys/fs/cgroup/memory.max", "7000");
  files.set("sys/fs/cgroup/memory.current", "3000");
  CHECK(files.free_memory() == 4000);

  // Version 1.
  files.set("proc/self/cgroup", "12:cpu,memory:/job\n0::/\n");
  files.set("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000\n");
  files.set("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n");
  CHECK(files.free_memory() == 2000);
}

}  // namespace
}  // namespace hipvmm::test
