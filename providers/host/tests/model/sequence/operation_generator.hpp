// SPDX-License-Identifier: MIT
#pragma once

#include <initializer_list>
#include <random>

#include "providers/host/tests/model/lockstep/lockstep.hpp"
#include "providers/host/tests/model/vmm/operation.hpp"

namespace hipvmm::test::model {

/// The objects that operations may name. Several threads must not name each other's objects, even
/// by mistake: the results would depend on the order of the threads.
enum class reach : std::uint8_t { anything, own_objects };

/// Draws operations that make sense in the present state, and spoils some, by one argument or more.
class operation_generator {
 public:
  operation_generator(std::uint32_t seed, reach how_far) : random_{seed}, reach_{how_far} {}

  [[nodiscard]] operation next(const lockstep& state);

 private:
  [[nodiscard]] operation plausible(kind what, const lockstep& state);
  void spoil(operation& each, const lockstep& state);
  [[nodiscard]] bool is_within_reach(const operation& each, const lockstep& state) const;

  [[nodiscard]] operation reserving(const lockstep& state);
  [[nodiscard]] operation mapping_one(const lockstep& state);
  void aim_at_mappings(operation& each, const lockstep& state, std::size_t most);
  [[nodiscard]] operation opening(const lockstep& state);
  [[nodiscard]] operation copying(kind what, const lockstep& state);
  [[nodiscard]] operation filling(kind what, const lockstep& state);

  struct spot {
    place at;
    std::size_t bytes;
    int device;  ///< that has a right to it, most often
  };
  [[nodiscard]] spot some_memory(const lockstep& state);
  [[nodiscard]] spot some_mapping(const lockstep& state);
  [[nodiscard]] std::size_t some_bytes(std::size_t most);
  [[nodiscard]] std::uint8_t some_reservation(const lockstep& state);
  [[nodiscard]] std::uint8_t some_handle(const lockstep& state);
  [[nodiscard]] int some_host_location(const lockstep& state);
  [[nodiscard]] std::uint64_t absurd_number();

  [[nodiscard]] std::size_t below(std::size_t limit) { return random_() % limit; }
  [[nodiscard]] bool one_in(std::size_t n) { return below(n) == 0; }
  template <class Value>
  [[nodiscard]] Value one_of(std::initializer_list<Value> values) {
    return values.begin()[below(values.size())];
  }

  std::mt19937 random_;
  reach reach_;
};

}  // namespace hipvmm::test::model
