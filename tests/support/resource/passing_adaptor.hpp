// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::test {

/// Changes nothing.
struct passing_adaptor final : mr::resource_adaptor {
  explicit passing_adaptor(mr::memory_resource* upstream)
      : resource_adaptor{"passing_adaptor", upstream} {}
};

}  // namespace hipvmm::test
