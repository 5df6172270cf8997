// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace hipvmm::test {

/// The exception of class `Error` that `call` throws. A call that returns ends the case.
template <typename Error, typename Call>
Error thrown_by(Call call) {
  static_assert(!std::is_same_v<Error, std::exception>, "a copy of the base would lose the text");
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  throw std::logic_error{"not reached"};
}

/// The text of the exception of class `Error` that `call` throws; empty if it returns.
template <typename Error = std::exception, typename Call>
std::string text_thrown_by(Call call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace hipvmm::test
