// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "providers/host/tests/model/lockstep/lockstep.hpp"
#include "providers/host/tests/model/vmm/operation.hpp"
#include "providers/host/tests/model/vmm/vmm_model.hpp"

namespace hipvmm::test::model {

inline constexpr std::size_t longest_sequence = 4000;

struct outcome {
  std::string difference;             ///< empty when model and provider agreed to the end
  std::vector<operation> operations;  ///< made, up to the one that differed
  kind_counts effects = {};
  kind_counts refusals = {};
  exclusion_counts left_out = {};
};

/// Makes sequences in child processes, in which the provider begins anew, so that a crash is a
/// difference like any other.
class sequence_runner {
 public:
  sequence_runner(const machine& of, const model_rules& rules,
                  provider_use use = provider_use::alone);
  sequence_runner& operator=(sequence_runner&&) = delete;
  ~sequence_runner();

  /// Pre: `count` is at most longest_sequence.
  [[nodiscard]] outcome generated(std::uint32_t seed, std::size_t count) const;
  [[nodiscard]] outcome replayed(const std::vector<operation>& operations) const;
  /// Removes operations as long as the sequence still differs.
  [[nodiscard]] outcome shrunk(outcome failing) const;

 private:
  struct log;
  template <class Next>
  [[nodiscard]] outcome in_child(std::size_t count, Next next) const;

  machine machine_;
  const model_rules& rules_;
  provider_use use_;
  log* log_;
};

/// The last operations, numbered, and the difference.
[[nodiscard]] std::string text_of(const outcome& failing, std::size_t most_lines);

}  // namespace hipvmm::test::model
