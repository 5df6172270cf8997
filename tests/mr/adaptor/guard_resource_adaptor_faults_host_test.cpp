// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <memory>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/devices.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::mr {
namespace {

struct guarded_memory {
  explicit guarded_memory(std::size_t quarantine) {
    guard_options options;
    options.quarantine_bytes = quarantine;
    guard = std::make_unique<guard_resource_adaptor>(&upstream, options);
  }

  hip_resource upstream{test::first_device};
  stream used{test::first_device};
  std::unique_ptr<guard_resource_adaptor> guard;
};

}  // namespace

TEST_CASE("guard_resource_adaptor: calls that fail lose no memory and find no damage") {
  for (const std::size_t quarantine : {std::size_t{0}, std::size_t{MiB}}) {
    test::fault_sweep sweep{"a guarded block", test::after_failure::capacity};
    sweep.run([&] { return std::make_unique<guarded_memory>(quarantine); },
              [](const auto& all) {
                void* const one = all->guard->allocate(all->used, 1000);
                all->guard->deallocate(all->used, one, 1000);
                void* const two = all->guard->allocate_sync(1000);
                all->guard->deallocate_sync(two, 1000);
                all->guard->flush();
              },
              [](const auto& all) { CHECK(all->guard->damages() == 0); },
              [](const auto& all) { CHECK(all->guard->damages() == 0); });
  }
}

}  // namespace hipvmm::mr
