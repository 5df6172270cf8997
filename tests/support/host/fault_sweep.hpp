// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "support/error_recorder.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {

/// Chunks that the shared cache keeps if a release would not return their memory, because it
/// stays with the addresses; 0 on devices on which it returns.
inline std::size_t pinned_chunks_kept() {
  return capability_of(device_ref{0}).needs(quirk::re_reserve)
             ? chunk_cache::shared().statistics().chunks
             : 0;
}

/// The objects that a failed operation may leave behind.
enum class after_failure {
  nothing,   ///< the live objects are those from before
  capacity,  ///< the subject may hold more than before; it gives that back when it dies
};

/// For an operation with a cache of its own, which keeps chunks if their memory stays with the
/// addresses.
inline after_failure nothing_but_pinned() {
  return capability_of(device_ref{0}).needs(quirk::re_reserve) ? after_failure::capacity
                                                               : after_failure::nothing;
}

/// One operation, run with its first HIP call failing, then its second, until no call is left.
/// Each time on a new subject, so that the checks see the state after one failure. A failed call
/// has done nothing: so no hipErrorUnknown, with which AMD's runtime loses its record of addresses.
struct fault_sweep {
  /// The subject's name in messages.
  std::string name;
  after_failure leaves = after_failure::nothing;

  /// make() gives the subject, or a std::unique_ptr to it; operation(subject) may fail,
  /// unchanged(subject) checks it after a failure and done(subject) after a success, with or
  /// without a fault on the way.
  template <typename Make, typename Operation, typename Unchanged, typename Done>
  void run(Make make, Operation operation, Unchanged unchanged, Done done) const {
    for (const int error : {int{hipErrorOutOfMemory}, int{hipErrorOperatingSystem}}) {
      std::uint64_t nth = 1;
      while (strikes(nth, error, make, operation, unchanged, done)) ++nth;
      INFO(name << " makes no HIP call that could fail");
      CHECK(nth > 1);
    }
  }

  /// The same for a subject that its default constructor makes.
  template <typename Subject, typename Operation, typename Unchanged, typename Done>
  void run(Operation operation, Unchanged unchanged, Done done) const {
    run([] { return Subject(); }, operation, unchanged, done);
  }

  /// A sweep of an operation that makes its own subject, such as a constructor.
  template <typename Operation>
  void run(Operation operation) const {
    run([] { return 0; }, [&](int) { operation(); }, [](int) {}, [](int) {});
  }

 private:
  // Far above the calls of any operation here: an endless retry ends as a failure.
  static constexpr std::uint64_t most_calls = 5000;

  template <typename Subject>
  static Subject& subject_in(Subject& made) {
    return made;
  }
  template <typename Subject>
  static Subject& subject_in(std::unique_ptr<Subject>& made) {
    return *made;
  }

  /// Whether the fault struck, which it does until the operation makes fewer than `nth` calls.
  template <typename Make, typename Operation, typename Unchanged, typename Done>
  bool strikes(std::uint64_t nth, int error, Make make, Operation operation, Unchanged unchanged,
               Done done) const {
    REQUIRE(nth < most_calls);
    INFO(name << ", HIP call " << nth << " failing with error " << error);
    int device = 0;
    REQUIRE(hipGetDevice(&device) == hipSuccess);
    const hipvmm_host_counters outside = live_objects();
    error_recorder reported;
    bool struck = false;
    {
      auto made = make();
      const hipvmm_host_counters before = live_objects();
      const std::size_t kept_before = pinned_chunks_kept();
      std::optional<std::string> thrown;
      {
        planned_fault fault{nullptr, nth, error};
        try {
          operation(subject_in(made));
        } catch (const std::exception& failure) {
          thrown = failure.what();
        }
        // The release of memory that the operation retired is part of it.
        drain_retired_memory();
        // A thread of the library may still be making calls for the operation.
        struck = fault.end();
      }
      int device_after = 0;
      REQUIRE(hipGetDevice(&device_after) == hipSuccess);
      if (reported.count() == 0) CHECK(device_after == device);
      // A scope that could not restore the device has said so; the next round needs it restored.
      REQUIRE(hipSetDevice(device) == hipSuccess);
      if (thrown) {
        INFO("thrown: " << *thrown);
        CHECK(struck);
        CHECK_MESSAGE(hipPeekAtLastError() == hipSuccess,
                      "a failure that was thrown must not surface as HIP's last error");
        unchanged(subject_in(made));
        if (leaves == after_failure::nothing && reported.count() == 0) {
          hipvmm_host_counters after = live_objects();
          after.handles -= pinned_chunks_kept() - kept_before;
          CHECK(after == before);
        }
      } else {
        done(subject_in(made));
      }
      static_cast<void>(hipGetLastError());
    }
    drain_retired_memory();
    if (reported.count() == 0) {
      CHECK(live_objects() == outside);
    } else {
      INFO("reported: " << reported.errors().front().call << ": "
                        << reported.errors().front().message);
      CHECK(struck);
    }
    return struck;
  }
};

}  // namespace hipvmm::test
