// SPDX-License-Identifier: MIT
#include "trace_protocol.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace bench {
namespace {

constexpr const char* good = "ok";
constexpr const char* bad = "error ";

/// Applies `work` to each figure of an epoch, always in the same order.
template <typename Epoch, typename Work>
void for_each_figure(Epoch& epoch, Work work) {
  for (auto* calls : {&epoch.allocate, &epoch.deallocate}) {
    work(calls->calls);
    work(calls->total_ns);
    work(calls->p50_ns);
    work(calls->p99_ns);
    work(calls->longest_ns);
  }
  work(epoch.peak_requested);
  work(epoch.peak_physical);
  work(epoch.seconds);
  work(epoch.seconds_until_done);
}

}  // namespace

std::string to_line(const replay_request& request) {
  return std::to_string(request.epochs) + ' ' +
         (request.busy_bytes ? std::to_string(*request.busy_bytes) : "-") + ' ' + request.trace;
}

replay_request request_of(const std::string& line) {
  std::istringstream in{line};
  replay_request result;
  std::string busy;
  if (!(in >> result.epochs >> busy) || in.get() != ' ' || !std::getline(in, result.trace))
    throw std::runtime_error{"'" + line + "' asks for no replay"};
  if (busy != "-") result.busy_bytes = std::stoull(busy);
  return result;
}

std::string to_line(const trace_epochs& epochs) {
  std::ostringstream out;
  out << good << std::setprecision(std::numeric_limits<double>::max_digits10);
  for (const hipvmm::tool::replay_epoch& each : epochs)
    for_each_figure(each, [&out](const auto& figure) { out << ' ' << figure; });
  return out.str();
}

std::string failure_line(std::string reason) {
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return bad + reason;
}

trace_epochs epochs_of(const std::string& line) {
  const std::string prefix = bad;
  if (line.starts_with(prefix)) throw std::runtime_error{line.substr(prefix.size())};
  std::istringstream in{line};
  std::string word;
  trace_epochs result;
  if (in >> word; word == good)
    while (in.good()) for_each_figure(result.emplace_back(), [&in](auto& figure) { in >> figure; });
  if (in.fail() || result.empty()) throw std::runtime_error{"'" + line + "' holds no figures"};
  return result;
}

}  // namespace bench
