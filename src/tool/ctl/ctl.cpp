// SPDX-License-Identifier: MIT
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/version.hpp>
#include "tool/budgets.hpp"
#include "tool/program.hpp"

namespace {

namespace tool = hipvmm::tool;

struct options {
  std::string name;
  std::string size;
  std::string device;
  std::string json;
  std::string from;
  std::string path;
  std::vector<unsigned> users;
};

void add_budget(CLI::App& command, options& chosen) {
  command.add_option("NAME", chosen.name, "The budget")->required();
  command
      .add_option("--device", chosen.device,
                  "Its device, by UUID or number; needed if several have a budget of that name")
      ->type_name("UUID|N");
}

/// Throws: std::runtime_error if the process sees no such device.
hipvmm::device_uuid uuid_of(const std::string& device) {
  if (const std::optional<int> ordinal = tool::number_in<int>(device))
    return tool::device_of(*ordinal).uuid();
  if (const auto found = hipvmm::device_with_uuid(device)) return found->uuid();
  throw std::runtime_error{"there is no device '" + device + "'; hipvmm-info shows their UUIDs"};
}

/// Only a device without the budget must exist.
hipvmm::device_uuid device_of_budget(const options& chosen, const char* advice = "") {
  std::vector<hipvmm::device_uuid> found;
  for (const hipvmm::budget_report& each : hipvmm::memory_budget::all()) {
    if (each.name != chosen.name) continue;
    // Without a call of HIP: the device may be busy, or not be visible here.
    if (to_string(each.device) == chosen.device) return each.device;
    found.push_back(each.device);
  }
  if (!chosen.device.empty()) return uuid_of(chosen.device);
  if (found.empty())
    throw std::runtime_error{"there is no budget '" + chosen.name +
                             "'; hipvmm-ctl list shows them" + advice};
  if (found.size() > 1)
    throw std::runtime_error{std::to_string(found.size()) + " devices have a budget '" +
                             chosen.name + "': name one by --device, such as " +
                             to_string(found.front())};
  return found.front();
}

int list(const options& chosen, bool as_json) {
  const std::unique_ptr<tool::output_file> file = tool::file_for_result(chosen.json);
  const std::vector<hipvmm::budget_report> all = hipvmm::memory_budget::all();
  tool::write_result(file, as_json ? tool::budgets_json(all) : tool::budgets_text(all));
  return 0;
}

int limit(const options& chosen) {
  const hipvmm::device_uuid device =
      device_of_budget(chosen, ", and with --device a limit can be set before there is one");
  hipvmm::memory_budget::set_limit(chosen.name, device, std::stoull(chosen.size));
  std::vector<hipvmm::budget_report> changed;
  for (hipvmm::budget_report& each : hipvmm::memory_budget::all())
    if (each.name == chosen.name && each.device == device) changed.push_back(std::move(each));
  tool::write_to_standard_output(tool::budgets_text(changed));
  return 0;
}

int remove(const options& chosen) {
  if (!hipvmm::memory_budget::remove(chosen.name, device_of_budget(chosen)))
    throw std::runtime_error{"there is no budget '" + chosen.name + "' on that device"};
  return 0;
}

int keep(const options& chosen) {
  // Each chunk costs a descriptor.
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &descriptors));
  }
  ::sigset_t ends;
  ::sigemptyset(&ends);
  // Leaves out signals that the parent set to be ignored, as nohup does: blocked, they would come.
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited {};
    if (::sigaction(each, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
      ::sigaddset(&ends, each);
  }
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const hipvmm::publication_options served{.other_users = chosen.users};
  const hipvmm::publication kept = hipvmm::publication::keep(chosen.from, chosen.path, served);
  tool::write_to_standard_output("keeps " + chosen.from + " at " + chosen.path + '\n');
  int signal = 0;
  ::sigwait(&ends, &signal);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Shows, limits and removes the memory budgets that processes of this user share, and keeps "
      "published memory.",
      "hipvmm-ctl"};
  options chosen;
  app.require_subcommand(0, 1);  // so that the message names a word that is no command
  app.set_version_flag("--version", "hipvmm-ctl " HIPVMM_VERSION_STRING);
  app.footer(
      "'hipvmm-ctl limit NAME SIZE' sets a limit for the processes that run and for later ones; "
      "those that hold more are asked to trim.\n"
      "'hipvmm-ctl remove NAME' removes a budget that no process uses.\n"
      "Budgets are those in /dev/shm, or in the folder that HIPVMM_BUDGETS names. See "
      "docs/guides/budgets.md.\n"
      "'hipvmm-ctl keep FROM PATH' keeps the memory that a process publishes at FROM, also when "
      "that process ends, until SIGINT, SIGTERM or SIGHUP: others attach at PATH. See "
      "docs/reference/ipc.md.");
  CLI::App* const listing = app.add_subcommand("list", "Show all budgets and their holders");
  listing->add_option("--json", chosen.json, "Write JSON, to standard output unless FILE is named")
      ->type_name("[-|FILE]")
      ->expected(0, 1);
  CLI::App* const limiting = app.add_subcommand("limit", "Set the limit of a budget");
  add_budget(*limiting, chosen);
  limiting->add_option("SIZE", chosen.size, "Bytes, or with a unit, as in 4GiB")
      ->required()
      ->transform(tool::size_or_zero_in_bytes, "");
  CLI::App* const removing = app.add_subcommand("remove", "Remove a budget that no process uses");
  add_budget(*removing, chosen);
  CLI::App* const keeping =
      app.add_subcommand("keep", "Keep published memory when its process ends");
  keeping->add_option("FROM", chosen.from, "The path of the publication")->required();
  keeping->add_option("PATH", chosen.path, "Where others attach from now on")->required();
  keeping->add_option("--user", chosen.users, "A further user who may attach, by number")
      ->check([](const std::string& text) -> std::string {
        if (tool::number_in<unsigned>(text)) return {};
        return "'" + text + "' is no user's number; `id -u` shows it";
      })
      ->type_name("UID")
      ->allow_extra_args(false);
  return tool::run_program(app, argc, argv, [&] {
    if (app.get_subcommands().empty())
      throw CLI::ValidationError{"a subcommand is missing: list, limit, remove or keep"};
    if (listing->parsed()) return list(chosen, listing->count("--json") != 0);
    if (keeping->parsed()) return keep(chosen);
    return limiting->parsed() ? limit(chosen) : remove(chosen);
  });
}
