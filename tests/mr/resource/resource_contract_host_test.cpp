// SPDX-License-Identifier: MIT
#include <hipvmm/testing/resource_contract.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include "support/host/host_provider.hpp"

namespace hipvmm::mr {
namespace {

enum class forgets { nothing, order, order_of_sync };

/// Keeps blocks, oldest first, and gives them to any stream at once where it forgets the order.
class careless_cache final : public resource_adaptor {
 public:
  careless_cache(memory_resource* upstream, forgets what)
      : resource_adaptor{"careless_cache", upstream}, forgets_{what} {}
  ~careless_cache() override {
    for (const auto& [bytes, pointer] : kept_)
      get_upstream_resource()->deallocate_sync(pointer, bytes);
  }

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    const auto found = kept_.find(bytes);
    if (found == kept_.end()) return resource_adaptor::do_allocate(stream, bytes, alignment);
    return kept_.extract(found).mapped();
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override {
    if (forgets_ == forgets::order)
      kept_.emplace(bytes, pointer);
    else
      resource_adaptor::do_deallocate(stream, pointer, bytes, alignment);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override {
    if (forgets_ == forgets::order_of_sync)
      kept_.emplace(bytes, pointer);
    else
      resource_adaptor::do_deallocate_sync(pointer, bytes, alignment);
  }

  forgets forgets_;
  std::multimap<std::size_t, void*> kept_;
};

/// The text of the rule of that name for a cache that forgets `what`; empty where it is kept.
std::string broken_rule(const char* name, forgets what) {
  hip_resource upstream{device_ref{0}};
  careless_cache cache{&upstream, what};
  for (const contract_rule& rule : resource_contract()) {
    if (std::string{name} != rule.name) continue;
    // The race is what the rule is to find, not the order checker.
    const test::unordered_on_purpose without_order_checker;
    try {
      // On a loaded machine the late fill of the rule may be in time.
      for (int attempt = 0; attempt < 10; ++attempt) rule.verify({cache, device_ref{0}, 1 * MiB});
    } catch (const contract_violation& violation) {
      return violation.what();
    }
    return {};
  }
  return "there is no such rule";
}

}  // namespace

TEST_CASE("resource_contract: finds memory that serves another stream too early") {
  const char* const rule = "memory serves another stream only after the work that uses it";
  CHECK(broken_rule(rule, forgets::nothing).empty());
  CHECK(broken_rule(rule, forgets::order).find("that deallocate took back served another stream") !=
        std::string::npos);
  CHECK(broken_rule(rule, forgets::order_of_sync).find("that deallocate_sync took back") !=
        std::string::npos);
}

}  // namespace hipvmm::mr
