// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <hipvmm/testing/resource_contract.hpp>

namespace hipvmm::test {

/// Checks each rule of a resource's contract in a subcase of its own.
inline void check_contract(const mr::contract_subject& subject) {
  for (const mr::contract_rule& rule : mr::resource_contract()) {
    SUBCASE(rule.name) { CHECK_NOTHROW(rule.verify(subject)); }
  }
}

}  // namespace hipvmm::test
