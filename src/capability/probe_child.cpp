// SPDX-License-Identifier: MIT
#include "capability/probe_child.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "capability/capability_fingerprint.hpp"
#include "capability/capability_text.hpp"
#include "capability/probe.hpp"
#include "capability/probe_process.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::string_view fingerprint_mark = "fingerprint ";
constexpr std::string_view begin_mark = "begin ";
constexpr std::string_view end_mark = "end";
constexpr std::string_view open_mark = "open ";
constexpr std::string_view ended_mark = "ended ";

const probe* probe_named(std::string_view name) {
  for (const probe& each : all_probes())
    if (each.name == name) return &each;
  return nullptr;
}

bool lists(std::string_view names, std::string_view name) {
  return names.find(std::string{","}.append(name).append(",")) != std::string_view::npos;
}

class conversation {
 public:
  conversation(device_ref device, capability::record& found, const std::string& program,
               const std::string& without)
      : found_{found}, child_{program, arguments(device, program, without)} {}

  enum class result { done, broke_in_probe, silent_in_probe, ended_from_outside, useless };
  result hold(std::chrono::milliseconds patience) {
    std::string line;
    for (;;) {
      const probe_process::reading got = child_.read_line(line, patience);
      if (got == probe_process::reading::line) {
        if (!take(line)) return result::useless;
        if (done_) return result::done;
        continue;
      }
      const probe_process::ending seen = child_.end();
      const probe_process::ending how = said_end_.value_or(seen);
      what_ = how.how;
      const bool is_late = got == probe_process::reading::late;
      if (is_late) what_ = "did nothing for " + std::to_string(patience.count()) + " ms";
      if (begun_ == nullptr) return result::useless;
      if (is_late) return result::silent_in_probe;
      return how.from_outside ? result::ended_from_outside : result::broke_in_probe;
    }
  }
  [[nodiscard]] const probe* begun() const noexcept { return begun_; }
  [[nodiscard]] const std::string& what() const noexcept { return what_; }

 private:
  static std::vector<std::string> arguments(device_ref device, const std::string& program,
                                            const std::string& without) {
    std::vector<std::string> result{program == own_program ? std::string{own_probe_name} : program,
                                    std::to_string(device.ordinal()), "--without", without};
    if (!probe_process::sees_ends()) result.emplace_back(watch_option);
    return result;
  }
  bool take(std::string_view line) {
    const auto after = [line](std::string_view mark) { return line.substr(mark.size()); };
    if (line.starts_with(fingerprint_mark)) {
      if (after(fingerprint_mark) == found_.fingerprint) return true;
      what_ = "sees another device by that number: " + std::string{after(fingerprint_mark)};
      return false;
    }
    if (line.starts_with(begin_mark)) {
      begun_ = probe_named(after(begin_mark));
    } else if (line == end_mark) {
      done_ = true;
    } else if (line.starts_with(ended_mark)) {
      int status = 0;
      const std::string_view text = after(ended_mark);
      std::from_chars(text.data(), text.data() + text.size(), status);
      said_end_ = probe_process::ending_of(status);
    } else if (line.starts_with(open_mark)) {
      read_line(after(open_mark), keys::all, persistence::open, {}, found_);
    } else {
      // The program marks findings that must not be written to disk.
      const bool passing = line.starts_with("passing ");
      read_line(passing ? line.substr(8) : line, keys::all,
                passing ? persistence::passing : persistence::lasting, {}, found_);
    }
    return true;
  }

  capability::record& found_;
  probe_process child_;
  const probe* begun_ = nullptr;
  bool done_ = false;
  std::optional<probe_process::ending> said_end_;
  std::string what_;
};

/// A process killed from outside says nothing about the device. A silent one may hang, or be
/// starved by a busy machine.
void note_broken(const probe& broken, capability::record& found, const std::string& how,
                 conversation::result came) {
  constexpr std::int64_t hour = 3600;
  const std::string what = "the process that probed it " + how;
  for (std::size_t i = 0; i < broken.count; ++i) {
    const auto which = static_cast<trait>(index_of(broken.first) + i);
    if (came == conversation::result::ended_from_outside) {
      found.set(which, finding::unknown, "not found out: " + what, persistence::passing);
    } else if (came == conversation::result::silent_in_probe) {
      found.set_until(which, finding::no, what, seconds_now() + hour);
    } else {
      found.set(which, finding::no, what, persistence::lasting);
    }
  }
}

}  // namespace

std::string probe_in_child(device_ref device, capability::record& found, const std::string& program,
                           std::chrono::milliseconds patience) {
  constexpr int most_children = 5;
  std::string asked = ",";
  std::map<std::string_view, std::string> silent;  // how each was silent; it is asked once more
  int broke = 0;
  for (int children = 0; broke < most_children && children < 2 * most_children; ++children) {
    for (const probe& each : all_probes())
      if (!each.is_open(found) && !lists(asked, each.name)) asked.append(each.name).append(",");
    try {
      conversation talk{device, found, program, asked};
      const conversation::result came = talk.hold(silent.empty() ? patience : 2 * patience);
      if (came == conversation::result::done) return {};
      if (came == conversation::result::useless) return program + " " + talk.what();
      const probe& broken = *talk.begun();
      const bool is_silent = came == conversation::result::silent_in_probe;
      if (is_silent && silent.emplace(broken.name, talk.what()).second) continue;
      ++broke;
      std::string how = talk.what();
      if (is_silent) {
        const std::string& before = silent.at(broken.name);
        how += ", and before" + before.substr(before.find(" for"));
      }
      // The probe is not open if the process broke after its answer.
      if (broken.is_open(found)) note_broken(broken, found, how, came);
      asked.append(broken.name).append(",");
    } catch (const std::system_error& error) {
      return std::string{"no process could be started for probes: "} + error.what();
    } catch (const std::invalid_argument& error) {
      return program + " said what is none of its lines: " + error.what();
    }
    if (found.findings[index_of(trait::virtual_memory)] == finding::no) return {};
  }
  // A probe that ends processes is not tried in this one.
  for (std::size_t i = 0; i < trait_count; ++i)
    if (found.persistences[i] == persistence::open)
      found.set(static_cast<trait>(i), finding::unknown,
                "not probed: " + std::to_string(broke) +
                    " processes ended, one after another, while they probed",
                persistence::passing);
  return {};
}

void say_end_of_child(int status) {
  std::printf("%s%d\n", std::string{ended_mark}.c_str(), status);
  std::fflush(stdout);
}

namespace {

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  // The next probe may end the process.
  std::fflush(stdout);
}

}  // namespace

void run_as_child(device_ref device, const std::string& without) {
  capability::record found;
  found.fingerprint = fingerprint_of(device);
  say(std::string{fingerprint_mark} + found.fingerprint + "\n");
  const std::string left_out = std::string{","}.append(without).append(",");
  const auto is_selected = [&](const probe& each) {
    return !lists(left_out, each.name) && each.is_open(found);
  };
  const auto say_finding = [&found](trait which) {
    switch (found.persistences[index_of(which)]) {
      case persistence::open:
        return say(std::string{open_mark} + line_of(found, which));
      case persistence::passing:
      case persistence::dated:
        return say("passing " + line_of(found, which));
      case persistence::lasting:
        return say(line_of(found, which));
    }
  };
  std::string said_numbers;
  const auto say_new_numbers = [&] {
    const std::string numbers = number_lines_of(found);
    if (numbers != said_numbers) say(numbers);
    said_numbers = numbers;
  };
  const copy_kernel none;
  run_probes(
      device, found,
      {is_selected, none,
       [](const probe& each) { say(std::string{begin_mark}.append(each.name).append("\n")); },
       [&](const probe& each) {
         for (std::size_t i = 0; i < each.count; ++i)
           say_finding(static_cast<trait>(index_of(each.first) + i));
         say_new_numbers();
       }});
  say(std::string{end_mark} + "\n");
}

}  // namespace hipvmm::detail
