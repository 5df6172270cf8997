// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/retirement.hpp>
#include "support/host/host_provider.hpp"
#include "support/test.hpp"

// The rules of every owner of the library. A new owner joins with one traits struct, which is made
// anew for each case and holds the objects that its owners need:
//
// - using owner_type = ...;
// - owner_type make(): a new owner that owns something.
// - static owner_type make_empty(): default-constructed if that is empty, else moved from.
// - static bool is_empty(const owner_type&).
// - static auto identity(const owner_type&): the value that moves along, such as get().
// - static std::uint64_t live(): how many of its things exist now.
// - static std::uint64_t freed(): how many were freed since the start.
//
// HIPVMM_OWNER_RELEASE_CONTRACT adds the cases of owners that have release(), which returns the
// identity, and HIPVMM_OWNER_FAILURE_CONTRACT those of owners that release through one HIP call:
//
// - void give_back(identity): the duty of the caller of release().
// - static constexpr const char* destroy_call.
namespace hipvmm::test {

/// For make_empty() of an owner whose default owns something.
template <typename Owner>
Owner moved_from(Owner source) {
  const Owner taken = std::move(source);
  return source;
}

TEST_CASE_TEMPLATE_DEFINE("owner: one that owns nothing is empty", Traits, owner_is_empty) {
  const auto owner = Traits::make_empty();
  CHECK(Traits::is_empty(owner));
}

TEST_CASE_TEMPLATE_DEFINE("owner: a new one is not empty", Traits, owner_is_made) {
  Traits traits;
  const auto owner = traits.make();
  CHECK_FALSE(Traits::is_empty(owner));
}

TEST_CASE_TEMPLATE_DEFINE("owner: moving passes on what is owned and leaves the source empty",
                          Traits, owner_move_constructs) {
  Traits traits;
  auto source = traits.make();
  const auto identity = Traits::identity(source);
  const auto target = std::move(source);
  CHECK(Traits::identity(target) == identity);
  CHECK(Traits::is_empty(source));
}

TEST_CASE_TEMPLATE_DEFINE("owner: moving creates and releases nothing", Traits,
                          owner_move_is_free) {
  Traits traits;
  auto source = traits.make();
  const std::uint64_t calls = hipvmm_host_call_count(nullptr);
  const auto target = std::move(source);
  CHECK(hipvmm_host_call_count(nullptr) == calls);
}

TEST_CASE_TEMPLATE_DEFINE("owner: move assignment over a live one gives the old back once", Traits,
                          owner_move_assigns) {
  Traits traits;
  auto target = traits.make();
  auto source = traits.make();
  const auto identity = Traits::identity(source);
  const std::uint64_t live = Traits::live();
  const std::uint64_t freed = Traits::freed();
  target = std::move(source);
  CHECK(Traits::identity(target) == identity);
  CHECK(Traits::is_empty(source));
  CHECK(Traits::live() == live - 1);
  CHECK(Traits::freed() == freed + 1);
}

TEST_CASE_TEMPLATE_DEFINE("owner: an empty one takes a new value", Traits,
                          owner_is_assigned_again) {
  Traits traits;
  auto owner = Traits::make_empty();
  auto source = traits.make();
  const auto identity = Traits::identity(source);
  owner = std::move(source);
  CHECK(Traits::identity(owner) == identity);
}

TEST_CASE_TEMPLATE_DEFINE("owner: assigning an empty one releases what was owned", Traits,
                          owner_is_emptied) {
  Traits traits;
  auto owner = traits.make();
  const std::uint64_t live = Traits::live();
  owner = Traits::make_empty();
  CHECK(Traits::is_empty(owner));
  CHECK(Traits::live() == live - 1);
}

TEST_CASE_TEMPLATE_DEFINE("owner: swapping exchanges what is owned", Traits, owner_swaps) {
  Traits traits;
  auto a = traits.make();
  auto b = traits.make();
  const auto identity_of_a = Traits::identity(a);
  const auto identity_of_b = Traits::identity(b);
  const std::uint64_t freed = Traits::freed();
  using std::swap;
  swap(a, b);
  CHECK(Traits::identity(a) == identity_of_b);
  CHECK(Traits::identity(b) == identity_of_a);
  CHECK(Traits::freed() == freed);
}

TEST_CASE_TEMPLATE_DEFINE("owner: moving to itself keeps what is owned", Traits, owner_self_moves) {
  Traits traits;
  auto owner = traits.make();
  const auto identity = Traits::identity(owner);
  const std::uint64_t freed = Traits::freed();
  auto& same = owner;
  owner = std::move(same);
  CHECK(Traits::identity(owner) == identity);
  CHECK(Traits::freed() == freed);
}

TEST_CASE_TEMPLATE_DEFINE("owner: what went through many owners is released once", Traits,
                          owner_frees_once) {
  Traits traits;
  auto third = Traits::make_empty();
  const std::uint64_t live = Traits::live();
  const std::uint64_t freed = Traits::freed();
  {
    auto first = traits.make();
    auto second = std::move(first);
    third = std::move(second);
    const auto last = std::make_unique<typename Traits::owner_type>(std::move(third));
    CHECK(Traits::live() == live + 1);
  }
  CHECK(Traits::live() == live);
  CHECK(Traits::freed() == freed + 1);
}

TEST_CASE_TEMPLATE_DEFINE("owner: nothing is reported where nothing fails", Traits,
                          owner_is_silent) {
  const error_recorder reported;
  const hipvmm_host_counters before = live_objects();
  {
    Traits traits;
    const auto owner = traits.make();
  }
  drain_retired_memory();
  CHECK(reported.count() == 0);
  CHECK(live_objects() == before);
}

TEST_CASE_TEMPLATE_DEFINE("owner: release leaves it empty and the caller in charge", Traits,
                          owner_releases) {
  Traits traits;
  auto empty = Traits::make_empty();
  auto owner = traits.make();
  const auto identity = Traits::identity(owner);
  const std::uint64_t live = Traits::live();
  const std::uint64_t freed = Traits::freed();
  const auto released = owner.release();
  CHECK(released == identity);
  CHECK(Traits::is_empty(owner));
  owner = std::move(empty);
  CHECK(Traits::live() == live);
  CHECK(Traits::freed() == freed);
  traits.give_back(released);
  CHECK(Traits::live() == live - 1);
}

TEST_CASE_TEMPLATE_DEFINE("owner: a destructor that fails reports its HIP call and does not throw",
                          Traits, owner_reports) {
  Traits traits;
  const error_recorder reported;
  const char* const call = Traits::destroy_call;
  auto owner = std::make_unique<typename Traits::owner_type>(traits.make());
  const auto identity = Traits::identity(*owner);
  {
    const planned_fault fault{call, 1, hipErrorOperatingSystem};
    owner.reset();
    CHECK(fault.struck());
  }
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().call == call);
  CHECK(reported.errors().front().code == hipErrorOperatingSystem);
  CHECK(hipGetLastError() == hipSuccess);
  // The library ends some later, and HIP's other leftovers are this case's.
  const auto live = Traits::live();
  drain_retired_memory();
  if (Traits::live() == live) traits.give_back(identity);
  CHECK(Traits::live() == live - 1);
}

}  // namespace hipvmm::test

#define HIPVMM_OWNER_CONTRACT(...)                                 \
  TEST_CASE_TEMPLATE_INVOKE(owner_is_empty, __VA_ARGS__);          \
  TEST_CASE_TEMPLATE_INVOKE(owner_is_made, __VA_ARGS__);           \
  TEST_CASE_TEMPLATE_INVOKE(owner_move_constructs, __VA_ARGS__);   \
  TEST_CASE_TEMPLATE_INVOKE(owner_move_is_free, __VA_ARGS__);      \
  TEST_CASE_TEMPLATE_INVOKE(owner_move_assigns, __VA_ARGS__);      \
  TEST_CASE_TEMPLATE_INVOKE(owner_is_assigned_again, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(owner_is_emptied, __VA_ARGS__);        \
  TEST_CASE_TEMPLATE_INVOKE(owner_swaps, __VA_ARGS__);             \
  TEST_CASE_TEMPLATE_INVOKE(owner_self_moves, __VA_ARGS__);        \
  TEST_CASE_TEMPLATE_INVOKE(owner_frees_once, __VA_ARGS__);        \
  TEST_CASE_TEMPLATE_INVOKE(owner_is_silent, __VA_ARGS__)

#define HIPVMM_OWNER_RELEASE_CONTRACT(...) TEST_CASE_TEMPLATE_INVOKE(owner_releases, __VA_ARGS__)

#define HIPVMM_OWNER_FAILURE_CONTRACT(...) TEST_CASE_TEMPLATE_INVOKE(owner_reports, __VA_ARGS__)
