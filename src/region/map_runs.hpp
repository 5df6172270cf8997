// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

#include "region/region_state.hpp"

namespace hipvmm::detail {

/// Maps chunks from lower to higher addresses. One call gives neighbours the same rights if HIP
/// takes several mappings, because on AMD that call costs more than a map.
class region_state::map_runs {
 public:
  static constexpr std::size_t most = 64;
  /// Mappings that stay are those of the backings, at their offsets, and are registered.
  enum class life { stays, ends };
  map_runs(region_state& of, const mapped_ranges& there, life how_long = life::stays) noexcept
      : of_{of}, there_{there}, stays_{how_long == life::stays} {}
  /// `to` is without rights until another run begins, or finish(). Pre: `to` and `visible` stay
  /// there until then. Throws: as hipMemMap and finish(); then the caller unmaps all.
  void add(std::size_t offset, const physical_chunk& chunk, const access_map* own, mapping& to,
           moment* visible = nullptr);
  /// Sets rights, and registers. Throws: hip_error; unsupported, as change_access().
  void finish();
  [[nodiscard]] std::size_t bytes() const noexcept;  ///< mapped, without rights yet

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
