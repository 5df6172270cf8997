// SPDX-License-Identifier: MIT
#include "capability/capability_override.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "capability/capability_text.hpp"
#include "core/environment.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::string_view assume_mark = "assume:";

/// The pieces between separators; empty ones are none.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end != 0) pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

}  // namespace

void capability_override::assume(capability::record& found) const {
  for (const std::string& each : assumptions)
    read_line(each, keys::assumable, persistence::passing, "assumed by HIPVMM_CAPABILITY", found);
  if (assumptions.empty()) return;
  found.origin += "; assumed by HIPVMM_CAPABILITY: ";
  for (const std::string& each : assumptions)
    found.origin += (&each == &assumptions.front() ? "" : ", ") + each;
}

capability_override read_capability_override() {
  capability_override request;
  // A program with rights of its own opens no file that its caller names.
  const char* const value = environment("HIPVMM_CAPABILITY");
  if (value == nullptr) return request;
  for (const std::string& part : split(value, ';')) {
    if (part == "reprobe") {
      request.reprobe = true;
    } else if (part.starts_with(assume_mark)) {
      for (std::string& each : split(std::string_view{part}.substr(assume_mark.size()), ','))
        request.assumptions.push_back(std::move(each));
    } else if (::access(part.c_str(), R_OK) == 0) {
      request.files.push_back(part);
    } else {
      const int error = errno;
      throw std::invalid_argument{
          "HIPVMM_CAPABILITY: \"" + part +
          "\" is neither \"reprobe\" nor \"assume:KEY=VALUE,...\" nor a file that can be read (" +
          std::generic_category().message(error) + ")"};
    }
  }
  try {
    capability::record nothing;
    request.assume(nothing);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument{std::string{"HIPVMM_CAPABILITY: "} + error.what()};
  }
  return request;
}

}  // namespace hipvmm::detail
