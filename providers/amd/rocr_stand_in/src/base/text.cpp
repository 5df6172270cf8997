// SPDX-License-Identifier: MIT
#include "src/base/text.hpp"

#include <cstdarg>
#include <cstdio>

namespace stand_in {

std::string text(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string made(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(made.data(), made.size() + 1, format, again);
  va_end(again);
  return made;
}

}  // namespace stand_in
