// SPDX-License-Identifier: MIT
#include "results.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "measure.hpp"

namespace bench {

void results::add(const char* scenario, const std::function<std::vector<measurement>()>& measure) {
  const stopwatch watch;
  try {
    for (measurement& row : measure()) {
      if (row.failed) complain(row.scenario + ", " + row.method, row.note);
      rows_.push_back(std::move(row));
    }
  } catch (const std::exception& error) {
    complain(scenario, error.what());
  }
  std::fprintf(stderr, "%s: %s took %.1f s\n", program_, scenario, watch.seconds());
}

void results::complain(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "%s: %s: %s\n", program_, what.c_str(), why.c_str());
  failed_ = true;
}

}  // namespace bench
