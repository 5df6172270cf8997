// SPDX-License-Identifier: MIT
#include "strategy/rights_setting.hpp"

#include "support/test.hpp"

namespace hipvmm::detail {
namespace {

mapped_sizes sizes_of(std::initializer_list<std::pair<std::size_t, std::size_t>> mappings) {
  mapped_sizes result;
  for (const auto& [offset, bytes] : mappings) result.add(offset, bytes);
  return result;
}

TEST_CASE("rights_setting: the first call names the mapping alone only if HIP may take that") {
  const std::string why;
  for (const bool has_one_size : {false, true}) {
    CHECK(rights_setting{true, true, device_ref{0}, &why}.begins_with_mapping(has_one_size));
    CHECK(rights_setting{false, true, device_ref{0}, &why}.begins_with_mapping(has_one_size) ==
          has_one_size);
  }
}

TEST_CASE("rights_setting: a call never spans a hole or mappings with other rights") {
  struct row {
    mapped_sizes there;
    bool has_same_rights;
    rights_range unasked, refused;
  };
  using enum rights_range;
  for (const row& each : {
           row{sizes_of({{0, 2}}), true, reservation, none},
           row{sizes_of({{0, 2}}), false, reservation, none},
           row{sizes_of({{0, 2}, {2, 4}}), true, reservation, reservation},
           row{sizes_of({{0, 2}, {2, 4}}), false, none, none},
           row{sizes_of({{0, 2}, {4, 4}}), true, none, none},
           row{sizes_of({{0, 2}, {4, 2}}), true, mapping, none},
           row{sizes_of({{0, 2}, {2, 2}}), false, mapping, none},
       }) {
    CHECK(rights_setting::next(each.there, 2, each.has_same_rights, false, false) == each.unasked);
    CHECK(rights_setting::next(each.there, 2, each.has_same_rights, true, false) == each.refused);
    // Without memory that was released meanwhile, the same call may pass.
    CHECK(rights_setting::next(each.there, 2, each.has_same_rights, true, true) ==
          (each.refused == none ? mapping : each.refused));
  }
}

TEST_CASE("rights_setting: a mapping is added beside equal ones, or without a hole") {
  CHECK(rights_setting::can_add_to(sizes_of({{0, 2}, {4, 2}})));
  CHECK(rights_setting::can_add_to(sizes_of({{0, 2}, {2, 4}})));
  CHECK(!rights_setting::can_add_to(sizes_of({{0, 2}, {4, 4}})));
}

}  // namespace
}  // namespace hipvmm::detail
