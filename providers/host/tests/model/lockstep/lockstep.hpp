// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exclusion.hpp"
#include "providers/host/tests/model/vmm/operation.hpp"
#include "providers/host/tests/model/vmm/vmm_model.hpp"

namespace hipvmm::test::model {

/// Throws std::runtime_error, with the given name, unless `given` is hipSuccess.
void must(hipError_t given, const char* what);

/// The part of the provider that is compared.
enum class provider_use {
  alone,   ///< everything: nothing else uses the host provider meanwhile
  shared,  ///< all but its totals
  /// It is AMD's runtime on the stand-in for ROCr: only decisions of the runtime itself.
  runtime,
};

/// The values in the slots of operations: the last one, which may have become stale.
struct slot_values {
  struct range {
    address start = 0;
    std::size_t bytes = 0;
  };
  std::array<range, reservation_slots> reservations = {};
  std::array<range, allocation_slots> allocations = {};
  std::array<handle, handle_slots> handles = {};
  std::array<int, descriptor_slots> descriptors = {-1, -1, -1, -1};
  range pinned = {};
  range pageable = {};

  [[nodiscard]] address resolve(const place& at) const;
};

/// Makes each call on the provider and on the model, and compares all that both can report.
/// Releases everything at the end.
class lockstep {
 public:
  /// Throws: std::runtime_error when the provider refuses calls that every test needs.
  lockstep(const machine& of, const model_rules& rules, provider_use use);
  lockstep& operator=(lockstep&&) = delete;
  ~lockstep();

  [[nodiscard]] std::optional<std::string> step(const operation& each);
  /// Compares every byte and every right of every mapping.
  [[nodiscard]] std::optional<std::string> compare_all();
  /// Releases all objects, and checks that nothing is left.
  [[nodiscard]] std::optional<std::string> give_back();

  [[nodiscard]] const vmm_model& model() const { return model_; }
  [[nodiscard]] const slot_values& slots() const { return slots_; }
  /// Whether the call makes addresses unusable for the rest of the process.
  [[nodiscard]] bool loses_addresses(const operation& each) const;
  [[nodiscard]] const kind_counts& effects() const { return effects_; }
  [[nodiscard]] const kind_counts& refusals() const { return refusals_; }
  [[nodiscard]] const exclusion_counts& left_out() const { return left_out_; }

 private:
  /// The call would end the process, or no document states its result.
  [[nodiscard]] bool is_left_out(const operation& each) const;
  [[nodiscard]] bool is_left_out_copy(const operation& each) const;
  [[nodiscard]] bool ends_without_link(const operation& each) const;
  [[nodiscard]] exclusion exclusion_of(const operation& each) const;
  [[nodiscard]] exclusion exclusion_of_access(const operation& each) const;
  [[nodiscard]] bool waits_for_held_stream(const operation& each) const;
  [[nodiscard]] bool is_foreign(const place& at) const;
  [[nodiscard]] bool is_placed(const operation& each) const;
  [[nodiscard]] bool ends_inside(address at, std::size_t bytes) const;
  [[nodiscard]] bool leaves_reservation(address at, std::size_t bytes) const;
  [[nodiscard]] bool lacks_link(address at, std::size_t bytes, int device) const;
  [[nodiscard]] bool has_unequal_mappings(address at) const;
  [[nodiscard]] bool spans_several(address at, std::size_t bytes) const;
  [[nodiscard]] bool is_mapped(address at, std::size_t bytes) const;
  [[nodiscard]] exclusion exclusion_of_work(const operation& each) const;

  void reserve(const operation& each);
  void address_free(const operation& each);
  void create(const operation& each);
  void release(const operation& each);
  void map(const operation& each);
  void unmap(address at, std::size_t bytes);
  void set_access(address at, std::size_t bytes, const access_entry* entries, std::size_t count);
  void get_access(const operation& each);
  void retain(const operation& each);
  void properties(const operation& each);
  void export_handle(const operation& each);
  void import_handle(const operation& each);
  void close_descriptor(std::uint8_t slot);
  void allocate(const operation& each);
  void free_allocation(const operation& each);
  void peer_access(const operation& each);
  void copy(const operation& each);
  void peer_copy(const operation& each);
  void fill(const operation& each);
  void fill_behind_change(const operation& each);

  /// Compares a result with those that the model allows; whether the call had its effect.
  bool judge(const verdict& expected, hipError_t given);
  void differ(const std::string& how);
  void compare_totals();
  void compare_granularity();
  void compare_mapping(address start, const mapping& each);
  void compare_host_area(const slot_values::range& range);
  [[nodiscard]] handle handle_of(std::uint8_t slot) const;
  void use_device(int device);
  void wait_for_devices();
  /// Waits until AMD's runtime has dropped all commands: up to 6.4 a command holds the record of
  /// the addresses that it used, and the next reservation there loses its own.
  void outlast_commands();
  void allocate_pinned();
  [[nodiscard]] address wish_of(const operation& each);

  vmm_model model_;
  provider_use use_;
  slot_values slots_;
  std::array<hipStream_t, device_count> streams_ = {};
  std::vector<std::byte> pageable_;
  std::array<int, 2> pipe_ = {-1, -1};
  int null_file_ = -1;
  std::optional<std::string> difference_;
  kind current_ = kind::reserve;
  kind_counts effects_ = {};
  kind_counts refusals_ = {};
  exclusion_counts left_out_ = {};
  // On AMD's runtime reservations have hints one after another, far apart, so that a sequence has
  // the same neighbours in each run.
  static constexpr address arena_start = address{1} << 44U;
  static constexpr std::size_t arena_step = std::size_t{1} << 30U;
  address arena_end_ = arena_start;
};

}  // namespace hipvmm::test::model
