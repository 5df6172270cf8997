// SPDX-License-Identifier: MIT
// Announcements behind work that fails.
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <memory>
#include <utility>

#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/publication.hpp>
#include "ipc/published_region.hpp"
#include "support/test.hpp"

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

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
