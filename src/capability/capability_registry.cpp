// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "capability/capability.hpp"
#include "capability/capability_file.hpp"
#include "capability/capability_fingerprint.hpp"
#include "capability/capability_text.hpp"
#include "capability/probe.hpp"
#include "capability/probe_child.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "core/owner_process.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm {
namespace detail {
namespace {

using record = capability::record;

constexpr std::string_view assume_mark = "assume:";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end != 0) pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

struct capability_override {
  bool reprobe = false;
  std::vector<std::string> files;
  std::vector<std::string> assumptions;  // key=value

  void assume(record& found) const;
};

void capability_override::assume(record& found) const {
  for (const std::string& each : assumptions)
    read_line(each, keys::assumable, persistence::passing, "assumed by HIPVMM_CAPABILITY", found);
  if (assumptions.empty()) return;
  found.origin += "; assumed by HIPVMM_CAPABILITY: ";
  for (const std::string& each : assumptions)
    found.origin += (&each == &assumptions.front() ? "" : ", ") + each;
}

/// Throws: std::invalid_argument, which names the part of HIPVMM_CAPABILITY that is not understood.
capability_override read_capability_override() {
  capability_override request;
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
    record nothing;
    request.assume(nothing);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument{std::string{"HIPVMM_CAPABILITY: "} + error.what()};
  }
  return request;
}

enum class trigger {
  first_use,  ///< a program will use memory soon
  demand,
};

/// Answers, by the runtime's version or as unknown, the probes that only a child may run. Neither
/// answer is kept on disk.
void answer_without_child(record& found, const std::string& why) {
  const runtime_rules& rules = rules_of_runtime();
  const auto expect = [&](const probe& which, bool yes) {
    answer_all(which, found, yes ? finding::yes : finding::no,
               "by the version of the runtime, " + std::to_string(rules.version) +
                   ", and not probed: " + why,
               persistence::passing);
  };
  for (const probe& each : all_probes()) {
    if (each.danger != risk::child_only || !each.is_open(found)) continue;
    if (each.first == trait::imports_by_value) {
      expect(each, rules.imports_descriptor_by_value);
    } else if (each.first == trait::reports_failed_map) {
      expect(each, rules.reports_failed_map);
    } else if (rules.is_cuda &&
               (each.first == trait::counts_ending_streams || each.first == trait::free_waits ||
                each.first == trait::retains_chunks || each.first == trait::unmaps_many ||
                each.first == trait::pools_reuse_in_order)) {
      expect(each, true);
    } else {
      answer_all(each, found, finding::unknown, "not probed: " + why, persistence::passing);
    }
  }
}

bool is_refused(const probe& each, const record& found) {
  for (std::size_t i = 0; i < each.count; ++i)
    if (found.findings[index_of(each.first) + i] == finding::no) return true;
  return false;
}

/// If a kernel of the program has failed or the runtime has ended, each probe fails: that is no
/// answer for other processes.
bool still_works(device_ref device) {
  try {
    const stream fresh{device};
    fresh.synchronize();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Returns the way of the answers, as the end of a sentence.
std::string probe_open(device_ref device, record& found, trigger when) {
  // On AMD's runtime even common calls have crashed or hung. On CUDA they have not, and a child
  // would cost each first start most of a second.
  const bool is_cuda = rules_of_runtime().is_cuda;
  std::string why_no_child =
      "that takes a process of its own, which CUDA is not given at first use";
  if (!is_cuda || when == trigger::demand) {
    const probe_program program = find_probe_program();
    why_no_child = program.why_not;
    if (why_no_child.empty()) why_no_child = probe_in_child(device, found, program.path);
  }
  if (why_no_child.empty() || !found.is_open()) return "probed now in a process of its own";
  const auto is_due = [&found](const probe& each) {
    return each.danger == risk::none && each.is_open(found) &&
           found.findings[index_of(trait::virtual_memory)] != finding::no;
  };
  const copy_kernel none;
  const auto believe = [&](const probe& each) {
    if (!is_refused(each, found) || still_works(device)) return;
    for (std::size_t i = 0; i < each.count; ++i)
      found.persistences[index_of(each.first) + i] = persistence::passing;
  };
  run_probes(device, found, {is_due, none, [](const probe&) {}, believe});
  if (found.findings[index_of(trait::virtual_memory)] == finding::yes)
    answer_without_child(found, why_no_child);
  return "probed now in this process";
}

void probe_with_kernel(const copy_kernel& kernel, device_ref device, record& found) {
  if (!kernel || found.findings[index_of(trait::virtual_memory)] != finding::yes) return;
  const auto looks = [](const probe& each) { return each.uses_kernel; };
  run_probes(device, found, {looks, kernel});
}

bool lasts(persistence holds) {
  return holds == persistence::lasting || holds == persistence::dated;
}

std::size_t lasting_count(const record& found) {
  std::size_t count = found.descriptors_per_chunk >= 0 ? 1 : 0;
  for (const persistence each : found.persistences) count += lasts(each) ? 1U : 0U;
  return count;
}

std::optional<record> read_kept(const capability_override& request, const std::string& fingerprint,
                                std::string& path) {
  for (const std::string& each : request.files) {
    if (auto found = read_record(each, fingerprint, file_owner::named)) {
      path = each;
      found->from_named_file = true;
      return found;
    }
  }
  path = cache_path(fingerprint);
  if (request.reprobe || path.empty()) return std::nullopt;
  return read_record(path, fingerprint, file_owner::cache);
}

/// Copies lasting and dated answers that `found` has and `before` has not.
void take_answers(record& kept, const record& found, const record& before) {
  for (std::size_t i = 0; i < trait_count; ++i) {
    if (!lasts(found.persistences[i]) || lasts(before.persistences[i])) continue;
    kept.findings[i] = found.findings[i];
    kept.reasons[i] = found.reasons[i];
    kept.persistences[i] = found.persistences[i];
    kept.until[i] = found.until[i];
    if (static_cast<trait>(i) == trait::visible_at_once)
      kept.visibility_delay = found.visibility_delay;
  }
  if (before.minimum_granularity == 0) {
    kept.minimum_granularity = found.minimum_granularity;
    kept.recommended_granularity = found.recommended_granularity;
  }
  if (before.descriptors_per_chunk < 0 && found.descriptors_per_chunk >= 0)
    kept.descriptors_per_chunk = found.descriptors_per_chunk;
  if (before.costs.create == 0 && found.costs.create != 0) kept.costs = found.costs;
}

/// Writes the answers that `found` has and `before` has not. Others on disk stay: another process
/// may have found more. Returns the end of the origin.
std::string keep(const record& found, const record& before) {
  if (found.from_named_file)
    return "; not kept, for it began with a file that HIPVMM_CAPABILITY names";
  if (lasting_count(found) == 0) return "; not kept, for nothing was found out that would last";
  const std::string path = cache_path(found.fingerprint);
  if (path.empty()) return "; not kept, for there is neither XDG_CACHE_HOME nor HOME";
  record kept = read_record(path, found.fingerprint, file_owner::cache).value_or(record{});
  kept.fingerprint = found.fingerprint;
  take_answers(kept, found, lasting_count(kept) == 0 ? record{} : before);
  const std::string why_not = write_record(path, kept);
  return why_not.empty() ? "; kept in " + path : "; not kept, for " + why_not;
}

std::shared_ptr<const record> finish(record found, const capability_override& request) {
  for (std::string& reason : found.reasons)
    if (reason.empty())
      reason = std::string{"not asked, as virtual_memory is "}.append(
          name_of(found.findings[index_of(trait::virtual_memory)]));
  request.assume(found);
  found.conclude();
  return std::make_shared<const record>(std::move(found));
}

void log_path(device_ref device, const record& found) {
  log<log_level::info>([&] {
    std::string text = "device " + std::to_string(device.ordinal()) + ": memory by ";
    text += found.path == memory_path::fallback ? "hipMalloc alone, for " + found.why_fallback
                                                : std::string{"chunks that are mapped"};
    for (const quirk each : found.quirks) text.append("; works around ").append(name_of(each));
    return text + "; " + found.origin;
  });
}

record first_record(device_ref device, const capability_override& request) {
  const std::string fingerprint = fingerprint_of(device);
  std::string path;
  std::optional<record> kept = read_kept(request, fingerprint, path);
  record found = kept.value_or(record{});
  found.fingerprint = fingerprint;
  if (kept) found.origin = "read from " + path;
  if (found.is_open()) {
    const record before = found;
    const std::string how = probe_open(device, found, trigger::first_use);
    if (lasting_count(found) > lasting_count(before)) {
      found.origin += (kept ? ", the rest " : "") + how + keep(found, before);
    } else if (!kept) {
      found.origin = how + keep(found, before);
    }
  }
  return found;
}

void complete(device_ref device, record& found) {
  const record before = found;
  const std::string how = probe_open(device, found, trigger::first_use);
  if (lasting_count(found) > lasting_count(before)) found.origin = how + keep(found, before);
}

/// Never destroyed: code that runs at exit may ask.
class known_devices {
 public:
  struct place {
    const owner_process process;
    std::mutex mutex;
    std::optional<record> found;                 // without HIPVMM_CAPABILITY's assumptions
    std::optional<capability_override> request;  // kept, because its files may go
    std::shared_ptr<const record> given;
    std::chrono::steady_clock::time_point tried;

    /// Throws: unsupported in a child of fork() if the parent held the lock.
    [[nodiscard]] std::unique_lock<std::mutex> locked() {
      if (!process.is_of_parent()) return std::unique_lock{mutex};
      // Longer than a thread of the child would hold it.
      for (int tries = 0; tries < 100; ++tries) {
        if (std::unique_lock lock{mutex, std::try_to_lock}) return lock;
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
      }
      refuse_in_child();
    }
    void put(device_ref device, record what, const capability_override& asked) {
      given = finish(what, asked);
      follow_strictest(device,
                       {given->has(trait::counts_ending_streams), given->has(trait::free_waits)});
      found = std::move(what);
      tried = std::chrono::steady_clock::now();
    }
    [[nodiscard]] bool is_to_be_probed() const {
      return !given || (found->is_open() &&
                        std::chrono::steady_clock::now() - tried >= reprobe_interval.load());
    }
  };
  static place& of(device_ref device) {
    static auto& only = *new known_devices;
    const std::lock_guard lock{only.mutex_};
    return only.places_[device.ordinal()];
  }

 private:
  /// Waits for any device follow one set of rules.
  static void follow_strictest(device_ref device, device_wait_rules its) {
    static auto& all = *new std::map<int, device_wait_rules>;
    static std::mutex mutex;
    const std::lock_guard lock{mutex};
    all[device.ordinal()] = its;
    for (const auto& [ordinal, each] : all) {
      its.counts_ending_streams = its.counts_ending_streams && each.counts_ending_streams;
      its.free_waits = *its.free_waits && *each.free_waits;
    }
    set_device_wait_rules(its);
  }

  std::mutex mutex_;
  std::map<int, place> places_;
};

}  // namespace
}  // namespace detail

// One thread probes a device; others that ask wait for its lock. HIP is called under the lock, and
// no code of the application: reports reach its error handler after the unlock.
capability capability_of(device_ref device) {
  require_device(device);
  auto& place = detail::known_devices::of(device);
  detail::held_reports told;
  const auto lock = place.locked();
  if (place.is_to_be_probed()) {
    const detail::reports_wait wait{told};
    if (!place.request) place.request = detail::read_capability_override();
    capability::record found =
        place.found ? *place.found : detail::first_record(device, *place.request);
    if (place.found) detail::complete(device, found);
    place.put(device, std::move(found), *place.request);
    detail::log_path(device, *place.given);
  }
  return capability{place.given};
}

capability probe_capability(device_ref device, const copy_kernel& kernel) {
  require_device(device);
  auto& place = detail::known_devices::of(device);
  const detail::capability_override request = detail::read_capability_override();
  capability::record found;
  found.fingerprint = detail::fingerprint_of(device);
  {
    detail::held_reports told;
    const auto lock = place.locked();
    const detail::reports_wait wait{told};
    found.origin = detail::probe_open(device, found, detail::trigger::demand);
    // The kernel may allocate from the library, which needs a record.
    if (!place.given) place.put(device, found, request);
  }
  detail::probe_with_kernel(kernel, device, found);
  found.origin += detail::keep(found, {});
  const auto lock = place.locked();
  place.put(device, std::move(found), request);
  return capability{place.given};
}

}  // namespace hipvmm
