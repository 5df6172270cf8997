// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm_resource_ref.hpp>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::hipmm {

device_async_resource_ref::device_async_resource_ref(resource* named)
    : resource_{hipvmm::mr::require_resource("device_async_resource_ref", named)} {}

bool device_async_resource_ref::are_equal(const resource* a, const resource* b) noexcept {
  // A wrapper with hipMM's interface knows its resource, but not the reverse.
  return a != nullptr && b != nullptr && (a->is_equal(*b) || b->is_equal(*a));
}

}  // namespace hipvmm::hipmm
