// SPDX-License-Identifier: MIT
#include <hipvmm/testing/resource_contract.hpp>

#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/runtime/device.hpp>
#include "mr/mr_test.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::mr {
namespace {

enum class forgets { nothing, order, order_of_sync };

/// Keeps blocks, oldest first, and gives them to any stream at once if it forgets the order.
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

enum class bug {
  none,
  misaligned,       // addresses are one byte too high
  same_block,       // every request gets one block
  writes_itself,    // bytes of blocks that are in use change
  loses_memory,     // deallocated memory never comes back
  nothing_sync,     // allocate_sync() gives nullptr
  less_than_asked,  // more than there is becomes a granule
  nobody_may_use    // neither the host nor a device
};

/// Memory of hipMalloc with one bug.
class buggy_resource final : public memory_resource {
 public:
  explicit buggy_resource(bug what) : bug_{what} {}
  ~buggy_resource() override {
    for (const auto& [pointer, bytes] : lost_) upstream_.deallocate_sync(pointer, bytes);
  }

 private:
  // Enough for any rule that frees its blocks.
  static constexpr std::size_t limit = 24 * MiB;

  void* take(std::size_t bytes) {
    if (bug_ == bug::less_than_asked) bytes = std::min(bytes, std::size_t{MiB});
    if (bug_ == bug::same_block) {
      if (lost_.empty()) lost_.emplace_back(upstream_.allocate_sync(4 * MiB), 4 * MiB);
      return lost_.front().first;
    }
    if (bytes > limit - lost_bytes_) throw out_of_memory{"a resource that lost its memory"};
    // A byte more for those that begin late.
    auto* const made = static_cast<char*>(upstream_.allocate_sync(bytes + 1));
    if (bug_ == bug::writes_itself) last_ = made;
    return bug_ == bug::misaligned ? made + 1 : made;
  }
  void give_back(void* pointer, std::size_t bytes, bool loses) noexcept {
    if (bug_ == bug::same_block) return;
    if (bug_ == bug::less_than_asked) bytes = std::min(bytes, std::size_t{MiB});
    void* const first = static_cast<char*>(pointer) - (bug_ == bug::misaligned ? 1 : 0);
    if (!loses) return upstream_.deallocate_sync(first, bytes + 1);
    lost_.emplace_back(first, bytes + 1);
    lost_bytes_ += bytes;
  }

  void* do_allocate(stream_ref, std::size_t bytes, std::size_t) override { return take(bytes); }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t) noexcept override {
    stream.synchronize();
    give_back(pointer, bytes, bug_ == bug::loses_memory);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t) override {
    return bug_ == bug::nothing_sync ? nullptr : take(bytes);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept override {
    give_back(pointer, bytes, bug_ == bug::loses_memory);
  }
  [[nodiscard]] bool do_is_device_accessible() const noexcept override {
    // The rules ask before they write and before they read. Behind their writes, or the byte
    // might be written over.
    if (bug_ == bug::writes_itself && last_ != nullptr && ++asked_ % 2 == 0) {
      device_ref{0}.synchronize();
      fill_async(own_, last_, 0xee, 1);
      own_.synchronize();
    }
    return bug_ != bug::nobody_may_use;
  }

  bug bug_;
  hip_resource upstream_{device_ref{0}};
  stream own_{device_ref{0}};
  std::vector<std::pair<void*, std::size_t>> lost_;
  std::size_t lost_bytes_ = 0;
  char* last_ = nullptr;
  mutable int asked_ = 0;
};

/// The complaint of the rule of that name about a resource with that bug; empty if it is kept.
std::string said_of(const std::string& name, bug what) {
  const test::unordered_on_purpose without_order_checker;
  for (const contract_rule& rule : resource_contract()) {
    if (name != rule.name) continue;
    buggy_resource subject{what};
    return test::text_thrown_by([&] { rule.verify({subject, device_ref{0}, 1 * MiB}); });
  }
  return "there is no such rule";
}

/// The text of the rule of that name for a cache that forgets `what`; empty if it is kept.
std::string broken_rule(const char* name, forgets what) {
  hip_resource upstream{device_ref{0}};
  careless_cache cache{&upstream, what};
  for (const contract_rule& rule : resource_contract()) {
    if (std::string{name} != rule.name) continue;
    // The rule is to find the race, not the order checker.
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

// Three rules are kept by memory_resource itself, for every resource: no bytes, wrong
// alignments and equality with itself. A resource that takes memory back one way only crashes, and
// one that threads must not share is a race, which sanitizers and the order checker report.
TEST_CASE("resource_contract: each rule that a resource can break finds a resource that does") {
  struct planted {
    const char* rule;
    bug what;
    const char* said;
  };
  const planted all[] = {
      {"addresses are multiples of the alignment", bug::misaligned, "no multiple of the alignment"},
      {"memory keeps what is written in its stream", bug::writes_itself, "holds 238 instead of "},
      {"blocks that live at the same time do not overlap", bug::same_block, "two blocks overlap"},
      {"memory released is used again", bug::loses_memory, "lost its memory"},
      {"allocate_sync gives memory that every stream may use", bug::nothing_sync,
       "allocate_sync gave nullptr"},
      {"memory may go from one stream to another", bug::writes_itself, "holds 238 instead of "},
      {"more than there is ends in std::bad_alloc and changes nothing", bug::less_than_asked,
       "not refused with std::bad_alloc"},
      {"the host uses memory that it may use, and somebody may", bug::nobody_may_use,
       "neither the host nor a device"},
  };
  for (const planted& each : all) {
    CAPTURE(std::string{each.rule});
    CHECK(said_of(each.rule, bug::none) == "");
    const std::string said = said_of(each.rule, each.what);
    CAPTURE(said);
    CHECK(said.find(each.said) != std::string::npos);
  }
}

}  // namespace hipvmm::mr
