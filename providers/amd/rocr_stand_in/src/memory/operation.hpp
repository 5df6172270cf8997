// SPDX-License-Identifier: MIT
// One piece of an agent's work, as reports name it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "src/memory/agents.hpp"

namespace stand_in {

struct byte_range {
  const char* role;  // "source", "destination", ...
  std::uint64_t address;
  std::uint64_t bytes;
};

struct operation {
  agent* who = nullptr;
  std::string name;                         // "copy", "fill (kernel ...)"
  std::string place;                        // "packet 3 of queue 1", "engine 0"
  const std::atomic<bool>* stop = nullptr;  // its queue is being destroyed
  std::string progress = {};                // of unfinished work: a sentence, or nothing
};

/// Returns "fill (kernel f), packet 3 of queue 1 on GPU 0 (agent node 1)".
inline std::string describe(const operation& what) {
  return what.name + ", " + what.place + " on " + describe(*what.who);
}

}  // namespace stand_in
