// SPDX-License-Identifier: MIT
#include "base/fault_rule.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "base/error_name.hpp"
#include "base/parse.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr std::string_view any_function = "any";

#define HIPVMM_HIP_USED(function, ...) std::string_view{#function},
#define HIPVMM_HIP_OFFERED(function) std::string_view{#function},
constexpr std::array functions{
#include "providers/hip_surface.def"
};
#undef HIPVMM_HIP_USED
#undef HIPVMM_HIP_OFFERED

// Not `quoted`: with <iomanip> included, a std::string argument would find std::quoted.
std::string in_quotes(std::string_view text) { return std::string{"\""}.append(text).append("\""); }

// Reads a rule, with the text that messages quote.
class rule_reader {
 public:
  rule_reader(std::string_view text, fault_settings& plan) : text_{text}, plan_{plan} {}

  void read() {
    std::istringstream words{std::string{text_}};
    std::string word;
    words >> word;
    if (word.find('=') != std::string::npos) {
      read_limit(word);
      if (words >> word) reject(in_quotes(word) + " follows a limit, which stands alone");
      return;
    }
    read_function(word);
    while (words >> word) read_part(word);
    if (!rule_.error && !rule_.victim && !rule_.aborts && rule_.delay.count() == 0) {
      reject("it does nothing: add error=NAME, delay=TIME, abort or kill");
    }
    plan_.rules.push_back(std::move(rule_));
  }

 private:
  struct pair {
    std::string_view name;
    std::string_view value;
  };

  [[noreturn]] void reject(const std::string& why) const {
    throw std::invalid_argument{"the rule " + in_quotes(text_) + " is not valid: " + why};
  }

  template <class Value>
  Value need(const std::optional<Value>& value, const pair& from, const char* accepted) const {
    if (value) return *value;
    reject(std::string{from.name} + " takes " + accepted + ", not " + in_quotes(from.value));
  }

  static pair split(std::string_view word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    return {word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))};
  }

  void read_limit(std::string_view word) {
    const pair part = split(word);
    if (part.name == "memory") {
      plan_.device_bytes = need(parse_bytes(part.value), part, "bytes, such as 512MiB");
    } else if (part.name == "descriptors") {
      plan_.chunks = need(parse_number(part.value), part, "a whole number");
    } else if (part.name == "visible_after") {
      plan_.unseen = need(parse_duration(part.value), part, "a time, such as 2ms");
    } else if (part.name == "aliases") {
      if (part.value != "incoherent")
        reject("aliases takes incoherent, not " + in_quotes(part.value));
      plan_.incoherent_aliases = true;
    } else if (part.name == "hints") {
      if (part.value != "ignored") reject("hints takes ignored, not " + in_quotes(part.value));
      plan_.ignored_hints = true;
    } else {
      reject(in_quotes(part.name) +
             " is none of the limits memory, descriptors, visible_after, aliases and hints");
    }
  }

  void read_function(const std::string& word) {
    if (word == any_function) return;
    if (std::find(functions.begin(), functions.end(), word) == functions.end()) {
      reject(in_quotes(word) + " is neither a HIP function of this provider nor \"any\"");
    }
    rule_.function = word;
  }

  void read_part(std::string_view word) {
    const pair part = split(word);
    if (part.name == "nth") {
      rule_.nth = need(positive(part.value), part, "a whole number from 1");
    } else if (part.name == "probability") {
      rule_.probability = need(parse_probability(part.value), part, "a number from 0 to 1");
    } else if (part.name == "seed") {
      rule_.random.seed(need(parse_number(part.value), part, "a whole number"));
    } else if (part.name == "error") {
      rule_.error = need(error_named(part.value), part, "a name such as hipErrorOutOfMemory");
    } else if (part.name == "delay") {
      rule_.delay = need(parse_duration(part.value), part, "a time, such as 2ms");
    } else if (word == "abort") {
      rule_.aborts = true;
    } else if (word == "kill") {
      rule_.victim = 0;
    } else if (part.name == "kill") {
      rule_.victim = static_cast<pid_t>(need(process(part.value), part, "the id of a process"));
    } else {
      reject(in_quotes(word) +
             " is none of nth=, probability=, seed=, error=, delay=, abort, kill and kill=");
    }
  }

  static std::optional<std::size_t> positive(std::string_view text) {
    const std::optional<std::size_t> number = parse_number(text);
    return number && *number > 0 ? number : std::nullopt;
  }

  // Refuses 0 and 1, and numbers that are negative as a pid_t: those name a group of processes.
  static std::optional<std::size_t> process(std::string_view text) {
    const std::optional<std::size_t> number = parse_number(text);
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<pid_t>::max());
    return number && *number > 1 && *number <= most ? number : std::nullopt;
  }

  std::string_view text_;
  fault_settings& plan_;
  fault_rule rule_;
};

}  // namespace

bool fault_rule::strikes(std::string_view called) {
  if (!function.empty() && function != called) return false;
  if (nth != 0) {
    // A spent rule has a number that counting down never reaches again.
    constexpr std::uint64_t spent = std::numeric_limits<std::uint64_t>::max();
    if (nth == spent) return false;
    --nth;
    if (nth != 0) return false;
    nth = spent;
    return true;
  }
  // 53 bits make every double from 0 to 1 that a fixed point of that width has.
  constexpr double scale = 1.0 / static_cast<double>(std::uint64_t{1} << 53U);
  return probability >= 1 || static_cast<double>(random() >> 11U) * scale < probability;
}

fault_settings parse_faults(std::string_view text) {
  fault_settings plan;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view rule = text.substr(0, end);
    if (rule.find_first_not_of(' ') != std::string_view::npos) rule_reader{rule, plan}.read();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return plan;
}

}  // namespace hipvmm::host_provider
