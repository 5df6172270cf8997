// SPDX-License-Identifier: MIT
// Reads files or standard input of unknown length and keeps all of it in the memory of a device, in
// a vector that grows in place; or, to compare, by allocating twice as much, copying and freeing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "ingest_input.hpp"
#include "ingest_job.hpp"
#include "ingest_progress.hpp"
#include "tool/program.hpp"

namespace {

using namespace hipvmm::tool;

const char* name_of(ingest::growth_method method) {
  return method == ingest::growth_method::copy ? "copy" : "vmm";
}

struct options {
  ingest::job job;
  std::string method = "vmm";
  int device = 0;
  std::vector<std::string> files;
  std::string json;
};

void declare(CLI::App& app, options& chosen) {
  app.add_option("FILE", chosen.files, "What to read, '-' for standard input (the default)");
  app.add_option("--method", chosen.method, "vmm: grow in place; copy: allocate, copy, free")
      ->check(CLI::IsMember{{"vmm", "copy"}}.description(""))
      ->type_name("vmm|copy")
      ->capture_default_str();
  app.add_option("--block", chosen.job.block_bytes, "Bytes to read and append at a time")
      ->transform(size_in_bytes, "")
      ->type_name("SIZE")
      ->default_str("8MiB");
  app.add_option("--max-size", chosen.job.max_bytes,
                 "Addresses to reserve, vmm only (default: the memory of the device)")
      ->transform(size_in_bytes, "")
      ->type_name("SIZE");
  add_device_option(app, chosen.device, "Device to fill")->capture_default_str();
  app.add_flag("--check", chosen.job.check, "Read everything back and compare checksums");
  add_result_option(app, "--json", chosen.json,
                    "Write the result as JSON, '-' for standard output only");
}

/// Takes over the options, and checks that there is a device and something to read.
void complete(options& chosen, const CLI::App& app) {
  if (chosen.method == "copy") chosen.job.method = ingest::growth_method::copy;
  if (chosen.method == "copy" && app.count("--max-size") != 0)
    throw CLI::ValidationError{"--max-size", "--method=copy reserves no addresses; leave it out"};
  chosen.job.device = device_of(chosen.device);
  if (!chosen.files.empty()) return;
  if (::isatty(STDIN_FILENO) == 1)
    throw CLI::ValidationError{"FILE", "nothing to read; name files or pipe data in"};
  chosen.files.emplace_back("-");
}

/// Of a noun in a table, behind its number.
const char* ending(std::size_t count) { return count == 1 ? " " : "s"; }

std::string row(const ingest::job& job, const ingest::report& report) {
  using hipvmm::format_bytes;
  const ingest::growth_figures& growth = report.growth;
  const char* const verdict = !report.verified ? "" : *report.verified ? " | verified" : " | WRONG";
  char text[256];
  std::snprintf(text, sizeof text,
                "%-4s | %11s in %8.3f s | %4zu growth step%s | %4zu chunk%s | %11s copied by "
                "growth | base %-6s | peak %11s%s\n",
                name_of(job.method), format_bytes(report.bytes).c_str(), report.seconds,
                growth.steps, ending(growth.steps), growth.chunks, ending(growth.chunks),
                format_bytes(growth.bytes_copied).c_str(), growth.base_moved ? "moved" : "stayed",
                format_bytes(growth.peak_bytes).c_str(), verdict);
  return text;
}

std::string json(const ingest::job& job, const ingest::report& report,
                 const std::vector<std::string>& files) {
  nlohmann::ordered_json result = {{"method", name_of(job.method)},
                                   {"bytes", report.bytes},
                                   {"growth_steps", report.growth.steps},
                                   {"chunks", report.growth.chunks},
                                   {"bytes_copied_by_growth", report.growth.bytes_copied},
                                   {"base_moved", report.growth.base_moved},
                                   {"peak_physical_bytes", report.growth.peak_bytes},
                                   {"seconds", report.seconds}};
  if (report.verified) result["verified"] = *report.verified;
  result["device"] = job.device.ordinal();
  result["files"] = files;
  // A file's name need not be UTF-8.
  return result.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void require_different_files(const options& chosen) {
  std::vector<named_file> inputs;
  for (const std::string& file : chosen.files) inputs.push_back({"FILE", file});
  std::vector<named_file> outputs;
  if (!chosen.json.empty()) outputs.push_back({"--json", chosen.json});
  require_different(inputs, outputs);
}

int ingest_and_report(const options& chosen) {
  require_different_files(chosen);
  const std::unique_ptr<output_file> json_file = file_for_result(chosen.json);

  ingest::input input{chosen.files};
  ingest::report report;
  {
    ingest::progress_bar bar{input.known_bytes()};
    ingest::job job = chosen.job;
    job.on_progress = [&bar](std::size_t bytes) { bar.update(bytes); };
    report = ingest::run(job, input);
  }

  if (!chosen.json.empty()) {
    const std::string text = json(chosen.job, report, input.names());
    if (json_file)
      json_file->write(text);
    else
      write_to_standard_output(text);
  }
  if (chosen.json != "-") write_to_standard_output(row(chosen.job, report));
  if (report.verified == false)
    throw std::runtime_error{"the bytes on device " + std::to_string(chosen.device) +
                             " are not those that were read: their checksums differ"};
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reads data of unknown length into a device vector that grows without copying.",
               "ingest"};
  options chosen;
  declare(app, chosen);
  return run_program(app, argc, argv, [&] {
    complete(chosen, app);
    return ingest_and_report(chosen);
  });
}
