// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

#include "region/region_state.hpp"

namespace hipvmm::detail {

/// Maps chunks in the order of their addresses. Sets the rights of neighbours by one call if HIP
/// takes several mappings, because on AMD that call costs more than a map.
class region_state::map_runs {
 public:
  static constexpr std::size_t most = 64;
  /// Mappings that stay are registered, and have the offsets of the backings.
  enum class life { stays, ends };
  map_runs(region_state& of, const mapped_ranges& there, life how_long = life::stays) noexcept
      : of_{of}, there_{there}, stays_{how_long == life::stays} {}
  /// Maps the chunk; finish() sets rights at the latest. Pre: `to` and `visible` live until then.
  /// Throws: hip_error; as finish(). Then the caller unmaps all.
  void add(std::size_t offset, const physical_chunk& chunk, const access_map* own, mapping& to,
           moment* visible = nullptr);
  /// Sets rights, and registers. Throws: hip_error; unsupported, as change_access().
  void finish();
  [[nodiscard]] std::size_t bytes() const noexcept;  ///< mapped and still without rights

 private:
  struct one {
    std::size_t offset;
    const physical_chunk* chunk;
    mapping* made;
    moment* visible;
  };

  [[nodiscard]] bool joins(std::size_t offset, const physical_chunk& chunk,
                           const access_map* own) const;
  void set_rights();

  region_state& of_;
  mapped_ranges there_;
  bool stays_;
  const access_map* own_ = nullptr;
  std::array<one, most> run_{};
  std::size_t count_ = 0;
};

}  // namespace hipvmm::detail
