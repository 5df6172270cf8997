// SPDX-License-Identifier: MIT
// hipvmm-info: what this machine's HIP is, how its memory behaves and what hipvmm does about it.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <hipvmm/core/device.hpp>
#include "tool/facts.hpp"
#include "tool/json_report.hpp"
#include "tool/text_report.hpp"

namespace {

constexpr int failed = 1;
constexpr int misused = 2;

struct options {
  std::optional<int> device;
  std::string json;
  bool as_json = false;
  bool probe = false;
  bool explain = false;
};

void declare(CLI::App& app, options& chosen) {
  app.add_option("--device", chosen.device, "Only this device")->type_name("N");
  CLI::Option* const json =
      app.add_option("--json", chosen.json, "Write JSON, to standard output unless FILE is named")
          ->type_name("[-|FILE]")
          ->expected(0, 1);
  app.add_flag("--probe", chosen.probe, "Probe anew and replace what is cached");
  app.add_flag("--explain", chosen.explain,
               "Say what each trait means, where it is recorded and what hipvmm does")
      ->excludes(json);
  app.set_version_flag("--version", "hipvmm-info " HIPVMM_VERSION_TEXT);
  app.footer("See docs/rocm.md for how to read it. Paste its output into a bug report.");
}

/// A file or memory of HIP that is opened later must not take the place of a standard descriptor.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    if (descriptor == STDOUT_FILENO)
      throw std::runtime_error{"standard output is closed; send it to a file or to /dev/null"};
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

std::vector<hipvmm::device_ref> devices_of(const options& chosen) {
  hipvmm::require_device(hipvmm::device_ref{chosen.device.value_or(0)});
  if (chosen.device) return {hipvmm::device_ref{*chosen.device}};
  std::vector<hipvmm::device_ref> all;
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) all.emplace_back(ordinal);
  return all;
}

void write(std::ostream& out, const std::string& text, const std::string& where) {
  errno = 0;
  if (!(out << text << std::flush))
    throw std::system_error{errno, std::generic_category(), "cannot write the result to " + where};
}

int tell(const options& chosen) {
  namespace tool = hipvmm::tool;
  const std::vector<hipvmm::device_ref> devices = devices_of(chosen);
  const bool to_file = chosen.as_json && !chosen.json.empty() && chosen.json != "-";
  std::ofstream file;
  if (to_file) {
    // Before the probes, which may take their time.
    file.open(chosen.json);
    if (!file)
      throw std::system_error{errno, std::generic_category(),
                              "cannot create '" + chosen.json + "'"};
  }

  const tool::facts known = tool::gather(
      devices, chosen.probe ? tool::record_source::probed_anew : tool::record_source::at_hand);
  const std::string text =
      chosen.as_json ? tool::json_report(known)
                     : tool::text_report(known, chosen.explain ? tool::detail_level::explained
                                                               : tool::detail_level::plain);
  if (to_file)
    write(file, text, "'" + chosen.json + "'");
  else
    write(std::cout, text, "standard output");

  for (const tool::failed_device& each : known.failed)
    std::cerr << "hipvmm-info: device " << each.device.ordinal() << ": " << each.why << '\n';
  return known.failed.empty() ? 0 : failed;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that went away shows as a failed write, which gets a sentence.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Tells how the memory of this machine's HIP devices behaves and what hipvmm does.",
               "hipvmm-info"};
  options chosen;
  try {
    occupy_standard_descriptors();
    declare(app, chosen);
    app.parse(argc, argv);
    chosen.as_json = app.count("--json") != 0;
    return tell(chosen);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    std::cerr << "hipvmm-info: " << error.what() << " (see hipvmm-info --help)\n";
    return misused;
  } catch (const std::exception& error) {
    std::cerr << "hipvmm-info: " << error.what() << '\n';
    return failed;
  }
}
