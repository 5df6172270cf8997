// SPDX-License-Identifier: MIT
// Records made in this process, while the host provider is short of something or a capture is on.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <system_error>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "capability/capability.hpp"
#include "capability/capability_fingerprint.hpp"
#include "capability/probe.hpp"
#include "capability/probe_child.hpp"
#include "support/host/host_test.hpp"
#include "support/process/child_case.hpp"
#include "support/process/temporary_folder.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// Runs a child in a process that has not probed yet, has an empty cache and starts no process.
void check_in_fresh_process(const char* name) {
  const temporary_folder cache;
  check_child(name, {"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_PROBE=none",
                     "XDG_CACHE_HOME=" + cache.path().string()});
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process,
                    "capability: the next use asks again for answers that a shortage left open") {
  detail::reprobe_interval = std::chrono::seconds{0};
  {
    const planned_faults rules{"memory=1MiB"};
    CHECK(capability_of(first_device)[trait::virtual_memory] == finding::unknown);
    CHECK(capability_of(first_device)[trait::virtual_memory] == finding::unknown);
  }
  const capability known = capability_of(first_device);
  CHECK(known[trait::virtual_memory] == finding::yes);
  CHECK(known[trait::tail_access] != finding::unknown);
  CHECK(known.origin().find("; kept in ") != std::string::npos);
  CHECK(&capability_of(first_device).fingerprint() == &known.fingerprint());
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process, "capability: what is open is not asked at every use") {
  const planned_faults rules{"memory=1MiB"};
  CHECK(capability_of(first_device)[trait::virtual_memory] == finding::unknown);
  const call_counter reserved{"hipMemAddressReserve"};
  CHECK(capability_of(first_device)[trait::virtual_memory] == finding::unknown);
  CHECK(reserved.count() == 0);
}

/// An error handler that uses the library, as one may that logs with the device's name.
std::string told_subject;
void ask_for_record(const char*, int, const char*) noexcept {
  told_subject = capability_of(first_device).fingerprint();
}

HIPVMM_CHILD("its error handler asks") {
  set_error_handler(ask_for_record);
  // At the second, a thread of the library has something to tell.
  for (const char* plan :
       {"", "hipMemUnmap nth=1 error=hipErrorUnknown; hipMemUnmap nth=2 error=hipErrorUnknown"}) {
    told_subject.clear();
    const planned_faults rules{plan};
    const capability known =
        *plan == 0 ? capability_of(first_device) : probe_capability(first_device);
    CHECK(told_subject == known.fingerprint());
  }
  set_error_handler(nullptr);
}

TEST_CASE("capability: the error handler may ask for the record") {
  const temporary_folder cache;
  const std::filesystem::path file = cache.path() / "record.txt";
  std::ofstream{file} << "none\n";
  check_child("its error handler asks",
              {"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_PROBE=none",
               "HIPVMM_CAPABILITY=" + file.string(), "XDG_CACHE_HOME=" + cache.path().string()});
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process, "capability: what was found during a shortage stays") {
  detail::reprobe_interval = std::chrono::seconds{0};
  {
    const planned_faults rules{"descriptors=1"};
    const capability known = capability_of(first_device);
    CHECK(known[trait::virtual_memory] == finding::yes);
    CHECK(known[trait::several_reservations] == finding::unknown);
    CHECK(known.path() != memory_path::fallback);
  }
  const call_counter created{"hipMemCreate"};
  CHECK(capability_of(first_device)[trait::several_reservations] == finding::yes);
  CHECK(created.count() > 0);
}

/// The lines of the one record in the cache of this process, and its path.
std::pair<std::string, std::filesystem::path> kept_record() {
  const std::filesystem::path folder = std::filesystem::path{::getenv("XDG_CACHE_HOME")} / "hipvmm";
  std::error_code missing;  // if nothing was kept
  for (const auto& each : std::filesystem::directory_iterator{folder, missing}) {
    std::ifstream file{each.path()};
    return {std::string{std::istreambuf_iterator<char>{file}, {}}, each.path()};
  }
  return {};
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process,
                    "capability: answers join the record that is on disk by then") {
  detail::reprobe_interval = std::chrono::seconds{0};
  {
    const planned_faults rules{"descriptors=1"};
    CHECK(capability_of(first_device)[trait::several_reservations] == finding::unknown);
  }
  auto [text, path] = kept_record();
  const std::size_t at = text.find("virtual_memory=yes");
  REQUIRE(at != std::string::npos);
  text.insert(text.find('\n', at), " (corrected)");
  std::ofstream{path} << text;
  CHECK(capability_of(first_device)[trait::several_reservations] == finding::yes);
  const std::string after = kept_record().first;
  CHECK(after.find("(corrected)") != std::string::npos);
  CHECK(after.find("several_reservations=yes") != std::string::npos);
  // Without a process for them, traits that only such a process asks keep their lines.
  static_cast<void>(probe_capability(first_device));
  CHECK(kept_record().first.find("several_reservations=yes") != std::string::npos);
}

HIPVMM_CHILD("loses the file that HIPVMM_CAPABILITY names") {
  detail::reprobe_interval = std::chrono::seconds{0};
  {
    const planned_faults rules{"descriptors=1"};
    CHECK(capability_of(first_device)[trait::several_reservations] == finding::unknown);
  }
  std::filesystem::remove(::getenv("HIPVMM_CAPABILITY"));
  CHECK(capability_of(first_device)[trait::several_reservations] == finding::yes);
}

TEST_CASE("capability: a named file may go after the first use") {
  const temporary_folder cache;
  const std::filesystem::path file = cache.path() / "record.txt";
  std::ofstream{file} << "none\n";
  check_child("loses the file that HIPVMM_CAPABILITY names",
              {"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_PROBE=none",
               "HIPVMM_CAPABILITY=" + file.string(), "XDG_CACHE_HOME=" + cache.path().string()});
}

// As a kernel of the program does that writes where it must not.
HIPVMM_CHILD("probes a device that has failed") {
  {
    const planned_faults rules{"hipStreamSynchronize error=hipErrorIllegalAddress"};
    CHECK(capability_of(first_device)[trait::virtual_memory] != finding::yes);
  }
  CHECK(kept_record().first.find("virtual_memory") == std::string::npos);
}

TEST_CASE("capability: a device that fails while it is probed is no answer for others") {
  if (hipvmm_host_checks_order() != 0) return;  // it reports the work that a refused wait leaves
  check_in_fresh_process("probes a device that has failed");
}

TEST_CASE("capability: an empty HIPVMM_PROBE names no program") {
  ::setenv("HIPVMM_PROBE", "", 1);
  CHECK(detail::find_probe_program().why_not.find("HIPVMM_PROBE names ,") == std::string::npos);
  ::unsetenv("HIPVMM_PROBE");
}

HIPVMM_CHILD("assumes while memory is short") {
  detail::reprobe_interval = std::chrono::seconds{0};
  {
    const planned_faults rules{"descriptors=1"};
    CHECK(capability_of(first_device)[trait::virtual_memory] == finding::no);
  }
  const capability known = capability_of(first_device);
  CHECK(known[trait::virtual_memory] == finding::no);
  CHECK(known.visibility_delay().count() == 0);
  CHECK(known.path() == memory_path::fallback);
  ::unsetenv("HIPVMM_CAPABILITY");
  CHECK(probe_capability(first_device).origin().find("assumed") == std::string::npos);
}

TEST_CASE("capability: assumptions are asked again with what is open") {
  const temporary_folder cache;
  const std::vector<std::string> environment{"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_PROBE=none",
                                             "XDG_CACHE_HOME=" + cache.path().string(),
                                             "HIPVMM_CAPABILITY=assume:virtual_memory=no"};
  check_child("assumes while memory is short", environment);
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process,
                    "capability: the prices of calls are those that probes met") {
  const planned_faults rules{"hipMemSetAccess delay=1ms; hipMemUnmap delay=2ms"};
  const call_costs costs = capability_of(first_device).costs();
  CHECK(costs.set_access >= 1'000'000);
  CHECK(costs.unmap >= 2'000'000);
  CHECK(costs.create > 0);
  CHECK(costs.free > 0);
}

HIPVMM_CHILD("times calls with room for few chunks") {
  for (const std::string plan : {"descriptors=40", "memory=64MiB"}) {
    const planned_faults rules{plan};
    const call_costs costs = probe_capability(first_device).costs();
    CAPTURE(plan);
    CHECK(costs.create > 0);
    CHECK(costs.unmap > 0);
  }
}

TEST_CASE("capability: calls are timed if few chunks can be had" * names_its_profiles) {
  for (const std::string profile : {"strict", "rocm-6.4", "rocm-7.2", "rocm-7.14"}) {
    const temporary_folder cache;
    CAPTURE(profile);
    check_child("times calls with room for few chunks",
                {"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_PROBE=none",
                 "XDG_CACHE_HOME=" + cache.path().string(), "HIPVMM_HOST_MEMORY=64GiB",
                 "HIPVMM_HOST_PROFILE=" + profile});
  }
}

HIPVMM_TEST_CASE_BY(check_in_fresh_process,
                    "capability: of many threads that ask first one probes") {
  std::array<const std::string*, 8> subjects{};
  in_a_thread_each(subjects, [](auto& each) { each = &capability_of(first_device).fingerprint(); });
  for (const std::string* each : subjects) CHECK(each == subjects.front());
}

HIPVMM_TEST_CASE_BY(
    check_in_fresh_process,
    "capability: probes in the process cost no capture and leave the caller's device") {
  const stream captured{first_device};
  REQUIRE(hipSetDevice(1) == hipSuccess);
  for (const hipStreamCaptureMode mode :
       {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    REQUIRE(hipStreamBeginCapture(captured.get(), mode) == hipSuccess);
    CHECK(probe_capability(first_device)[trait::virtual_memory] == finding::yes);
    end_capture(captured.get());
    int device = -1;
    CHECK(hipGetDevice(&device) == hipSuccess);
    CHECK(device == 1);
    hipStreamCaptureMode own = hipStreamCaptureModeRelaxed;
    CHECK(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
    CHECK(own == hipStreamCaptureModeGlobal);
    CHECK(hipThreadExchangeStreamCaptureMode(&own) == hipSuccess);
  }
}

TEST_CASE("capability: probes in the process leave nothing behind") {
  const hipvmm_host_counters before = live_objects();
  const std::size_t bytes = hipvmm_host_device_bytes(0);
  ::setenv("HIPVMM_PROBE", "none", 1);
  const capability known = probe_capability(first_device);
  ::unsetenv("HIPVMM_PROBE");
  CHECK(known[trait::virtual_memory] == finding::yes);
  CHECK(known.origin().find("probed now in this process") == 0);
  CHECK(live_objects() == before);
  CHECK(hipvmm_host_device_bytes(0) == bytes);
  // The record of a process that may start others is as it was.
  probe_capability(first_device);
}

/// Findings of the probe that answers `first` alone.
capability::record answers_of(trait first) {
  capability::record found;
  const copy_kernel none;
  const auto is_looked_for = [first](const detail::probe& each) { return each.first == first; };
  detail::run_probes(first_device, found, {is_looked_for, none});
  return found;
}

TEST_CASE("probes: whether a slow pool's frees wait is not found out by time") {
  if (host_profile() != "strict") return;  // the others crash or lose something
  const planned_faults slow{"hipMallocFromPoolAsync delay=40ms"};
  const capability::record found = answers_of(trait::pools_reuse_in_order);
  CHECK(found.persistences[index_of(trait::pool_frees_return)] == persistence::open);
}

// As another process does that probes at the same time: it takes as much at the moment at which
// the memory of this one should be back.
TEST_CASE("probes: memory that others take meanwhile is no answer for good") {
  const capability::record alone = answers_of(trait::returns_memory);
  const std::size_t idle = hipvmm_host_device_bytes(first_device.ordinal());
  const planned_faults slow{"hipMemUnmap delay=10ms; hipMemAddressFree delay=40ms"};
  const auto taken_meanwhile = [&] {
    std::uint64_t unmaps = hipvmm_host_call_count("hipMemUnmap");
    std::uint64_t frees = hipvmm_host_call_count("hipMemAddressFree");
    const std::jthread other{[&](const std::stop_token& ends) {
      const auto await = [&](const char* function, std::uint64_t& before) {
        while (hipvmm_host_call_count(function) == before && !ends.stop_requested())
          std::this_thread::yield();
        before = hipvmm_host_call_count(function);
      };
      for (int round = 0; round < 2 && !ends.stop_requested(); ++round) {
        await("hipMemUnmap", unmaps);
        const std::size_t bytes = hipvmm_host_device_bytes(first_device.ordinal()) - idle;
        if (bytes == 0) return;
        const device_allocation taken{first_device, bytes};
        await("hipMemAddressFree", frees);
        unmaps = hipvmm_host_call_count("hipMemUnmap");
      }
    }};
    return answers_of(trait::returns_memory);
  };
  capability::record found;
  // On a busy machine the other thread may come too late.
  for (int i = 0; i < 5; ++i) {
    found = taken_meanwhile();
    if (found.persistences[index_of(trait::returns_memory)] != persistence::lasting) break;
  }
  CHECK(found.persistences[index_of(trait::returns_memory)] != persistence::lasting);
  for (const trait each : {trait::returns_memory, trait::returns_with_addresses})
    CHECK(found.findings[index_of(each)] == alone.findings[index_of(each)]);
}

// A runtime that follows the descriptor's value as a pointer crashes on it.
HIPVMM_TEST_CASE_IN("import_chunk: takes the form that the runtime does, where sharing failed too",
                    under("rocm-6.4", "shares_chunks=no")) {
  CHECK_FALSE(capability_of(first_device).needs(quirk::import_by_pointer));
  physical_chunk owned{first_device, granule(), handle_type::posix_fd};
  const shareable_handle handle{owned};
  const physical_chunk imported = import_chunk(handle, first_device);
  CHECK(imported.bytes() == owned.bytes());
}

TEST_CASE("fingerprint_of: names the variables that can change an answer, and no others") {
  const std::string before = detail::fingerprint_of(first_device);
  for (const std::string name :
       {"HSA_XNACK", "HSA_ENABLE_SDMA", "HSA_OVERRIDE_GFX_VERSION", "GPU_MAX_HW_QUEUES",
        "AMD_DIRECT_DISPATCH", "HIP_VMEM_MANAGE_SUPPORT", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
    CAPTURE(name);
    for (const char* const value : {"0", "1"}) {
      ::setenv(name.c_str(), value, 1);
      CHECK(detail::fingerprint_of(first_device).find("; " + name + "=" + value) !=
            std::string::npos);
    }
    ::setenv(name.c_str(), "", 1);
    CHECK(detail::fingerprint_of(first_device) == before);
    ::unsetenv(name.c_str());
    CHECK(detail::fingerprint_of(first_device) == before);
  }
  // The host's way to wait, arguments of kernels, modules, logs and tools.
  for (const char* const name : {"HSA_ENABLE_INTERRUPT", "HIP_FORCE_DEV_KERNARG",
                                 "CUDA_MODULE_LOADING", "AMD_LOG_LEVEL", "HSA_TOOLS_LIB"}) {
    CAPTURE(name);
    ::setenv(name, "1", 1);
    CHECK(detail::fingerprint_of(first_device) == before);
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
