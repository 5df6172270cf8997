// SPDX-License-Identifier: MIT
#include "c/handle_table.hpp"

#include "support/test.hpp"

namespace hipvmm::test {
namespace {

using c::handle_kind;
using c::handle_table;
using c::invalid_handle;

std::shared_ptr<void> number(int value) { return std::make_shared<int>(value); }

int value_of(const std::shared_ptr<void>& object) { return *static_cast<int*>(object.get()); }

TEST_CASE("handle_table: a handle finds its object until it is taken") {
  handle_table table;
  void* const one = table.insert(handle_kind::buffer, number(1));
  void* const two = table.insert(handle_kind::stream, number(2));
  CHECK(one != nullptr);
  CHECK(one != two);
  CHECK(table.size() == 2);
  CHECK(value_of(table.find(handle_kind::buffer, one)) == 1);
  CHECK(value_of(table.find(handle_kind::stream, two)) == 2);
  CHECK(value_of(table.take(handle_kind::buffer, one)) == 1);
  CHECK(table.size() == 1);
  CHECK_THROWS_AS(static_cast<void>(table.find(handle_kind::buffer, one)), invalid_handle);
  CHECK_THROWS_AS(static_cast<void>(table.take(handle_kind::buffer, one)), invalid_handle);
}

TEST_CASE("handle_table: a stale handle does not find what is in its slot now") {
  handle_table table;
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* const handle = table.insert(handle_kind::buffer, number(i));
    CHECK(seen.insert(handle).second);
    CHECK(value_of(table.find(handle_kind::buffer, handle)) == i);
    if (i > 0)
      CHECK_THROWS_WITH_AS(static_cast<void>(table.find(handle_kind::buffer, *seen.begin())),
                           "the handle of a buffer is expected, and this one was destroyed",
                           invalid_handle);
    static_cast<void>(table.take(handle_kind::buffer, handle));
  }
}

TEST_CASE("handle_table: values that differ from a handle in any bit are refused") {
  handle_table table;
  void* const handle = table.insert(handle_kind::buffer, number(1));
  for (unsigned bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    const auto forged = reinterpret_cast<std::uint64_t>(handle) ^ std::uint64_t{1} << bit;
    CHECK_THROWS_AS(
        static_cast<void>(table.find(handle_kind::buffer, reinterpret_cast<void*>(forged))),
        invalid_handle);
  }
}

TEST_CASE("handle_table: the refusal names both kinds") {
  handle_table table;
  void* const handle = table.insert(handle_kind::stream, number(1));
  CHECK_THROWS_WITH_AS(static_cast<void>(table.find(handle_kind::buffer, handle)),
                       "the handle of a buffer is expected, and this one is of a stream",
                       invalid_handle);
  CHECK_THROWS_WITH_AS(static_cast<void>(table.find(handle_kind::resource, nullptr)),
                       "the handle of a resource is expected, and this one is null",
                       invalid_handle);
  int local = 0;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(table.find(handle_kind::attachment, &local)),
      "the handle of an attachment is expected, and this value was never a handle of hipvmm",
      invalid_handle);
}

TEST_CASE("handle_table: an object that is taken lives as long as it is used") {
  handle_table table;
  std::weak_ptr<int> watched;
  void* handle = nullptr;
  {
    auto object = std::make_shared<int>(7);
    watched = object;
    handle = table.insert(handle_kind::buffer, std::move(object));
  }
  const std::shared_ptr<void> used = table.find(handle_kind::buffer, handle);
  static_cast<void>(table.take(handle_kind::buffer, handle));
  CHECK(value_of(used) == 7);
  CHECK_FALSE(watched.expired());
}

TEST_CASE("handle_table: threads insert, find and take at the same time") {
  handle_table table;
  in_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      void* const handle = table.insert(handle_kind::buffer, number(t * 1000 + i));
      const bool right = value_of(table.find(handle_kind::buffer, handle)) == t * 1000 + i;
      const bool taken = value_of(table.take(handle_kind::buffer, handle)) == t * 1000 + i;
      if (!right || !taken) FAIL_CHECK("another thread's object");
    }
  });
  CHECK(table.size() == 0);
}

}  // namespace
}  // namespace hipvmm::test
