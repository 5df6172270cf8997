// SPDX-License-Identifier: MIT
// Announcements behind work that fails, and importers whose calls fail.
#include <dlfcn.h>

#include "ipc/ipc_test.hpp"
#include "support/host/host_provider.hpp"

namespace {

std::atomic<bool> work_fails{false};

using callback = std::pair<hipStreamCallback_t, void*>;

void call_as_failed(hipStream_t stream, hipError_t, void* argument) {
  const std::unique_ptr<callback> own{static_cast<callback*>(argument)};
  own->first(stream, hipErrorLaunchFailure, own->second);
}

}  // namespace

// In the provider's place, for which no work of a stream fails.
extern "C" hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function,
                                           void* argument, unsigned flags) {
  static auto* const real =
      reinterpret_cast<decltype(&hipStreamAddCallback)>(::dlsym(RTLD_NEXT, "hipStreamAddCallback"));
  if (!work_fails) return real(stream, function, argument, flags);
  auto both = std::make_unique<callback>(function, argument);
  const hipError_t result = real(stream, call_as_failed, both.get(), flags);
  if (result == hipSuccess) static_cast<void>(both.release());
  return result;
}

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(published_region,
                  "publication: bytes that failed work should write stay hidden") {
  attached_region seen{path};
  owned.commit(2 * granule(), granule());
  work_fails = true;
  announce(3);
  work_fails = false;
  CHECK(seen.refresh(stream) == 2 * granule());
  announce(3);
  CHECK(seen.refresh(stream) == 3 * granule());
}

TEST_CASE("attached_region: a refresh that fails reads its answer to the end") {
  constexpr std::size_t chunks = 64;  // more packets than are on their way to an importer at once
  const temporary_folder folder;
  const hipvmm::stream stream;
  region owned{first_device, chunks * granule(), shareable_chunks()};
  publication published{path_in(folder), first_device, chunks * granule(), {}, {.patience = 200ms}};
  attached_region seen{path_in(folder)};
  for (std::size_t i = 0; i < chunks; ++i) owned.commit(i * granule(), granule());
  published.announce(owned, chunks * granule(), stream);
  stream.synchronize();
  {
    const planned_faults failing{"hipMemMap nth=2 error=hipErrorOutOfMemory"};
    CHECK_THROWS_AS(seen.refresh(stream), hip_error);
  }
  std::this_thread::sleep_for(600ms);
  CHECK(published.importers() == 1);
  CHECK(seen.refresh(stream) == chunks * granule());
  CHECK(seen.is_open());
}

TEST_SUITE_END();

TEST_CASE("deadline_in: no limit overflows") {
  const auto now = std::chrono::steady_clock::now();
  CHECK(detail::deadline_in(std::chrono::milliseconds::max(), now) > now);
  for (const auto limit :
       {std::chrono::milliseconds{-9'300'000'000'000}, std::chrono::milliseconds::min()})
    CHECK(detail::deadline_in(limit, now) < now);
}

}  // namespace
}  // namespace hipvmm::test
