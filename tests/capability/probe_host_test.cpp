// SPDX-License-Identifier: MIT
#include "capability/probe.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <hipvmm/region/retirement.hpp>
#include "capability/capability_fingerprint.hpp"
#include "capability/probe_child.hpp"
#include "support/host/host_test.hpp"
#include "support/process/program.hpp"
#include "support/process/temporary_folder.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

using detail::probe;

capability::record without_findings() {
  capability::record found;
  found.fingerprint = detail::fingerprint_of(first_device);
  return found;
}

/// Runs one probe. The findings that it needs of others are taken for granted.
void run_alone(const probe& which, capability::record& found) {
  const copy_kernel none;
  detail::run_probes(first_device, found,
                     {[&which](const probe& each) { return each.name == which.name; }, none});
}

/// Whether a probe may run in this process under any profile: the others crash or lose something.
bool runs_here(const probe& each) {
  return each.danger == detail::risk::none || host_profile() == "strict";
}

/// Fails each HIP call of each probe in turn with `error`, and checks that nothing is left behind.
/// `check(each, at, found, quiet)` looks at the record's entry `at`; `quiet`: no error
/// handler was called and the fault struck.
template <typename Check>
void sweep_probes(hipError_t error, Check check) {
  for (const probe& each : detail::all_probes()) {
    if (!runs_here(each)) continue;
    bool struck = true;
    for (std::uint64_t nth = 1; struck; ++nth) {
      INFO(each.name << ", HIP call " << nth);
      REQUIRE(nth < 2000);
      drain_retired_memory();  // of the one before, objects that HIP refused to end
      const error_recorder told;
      const hipvmm_host_counters before = live_objects();
      capability::record found;
      {
        const planned_fault fault{nullptr, nth, error};
        run_alone(each, found);
        struck = fault.struck();
      }
      for (std::size_t i = 0; i < each.count; ++i)
        check(each, index_of(each.first) + i, found, struck && told.count() == 0);
      if (told.count() == 0) CHECK(live_objects() == before);
    }
  }
}

// The sweeps have processes of their own, because objects that HIP keeps stay until the end of
// one, as do the targets of copies that no call could wait for.
const std::vector<std::string> not_probed_yet{"HIPVMM_TESTS_PROBE_LATER=1"};

HIPVMM_TEST_CASE_IN(
    "probes: one whose calls are out of memory finds nothing wrong, and leaves nothing",
    not_probed_yet) {
  std::map<const probe*, capability::record> good;
  for (const probe& each : detail::all_probes())
    if (runs_here(each)) run_alone(each, good[&each]);
  sweep_probes(hipErrorOutOfMemory,
               [&](const probe& each, std::size_t at, const capability::record& found, bool) {
                 // Open, or as without the fault: never a no that would be kept.
                 if (found.persistences[at] == persistence::open) {
                   CHECK(found.findings[at] == finding::unknown);
                   CHECK_FALSE(found.reasons[at].empty());
                 } else if (found.persistences[at] == persistence::lasting) {
                   CHECK_MESSAGE(found.findings[at] == good[&each].findings[at], found.reasons[at]);
                 }
               });
}

HIPVMM_TEST_CASE_IN("probes: one whose call fails says which, and leaves nothing", not_probed_yet) {
  sweep_probes(hipErrorOperatingSystem, [](const probe&, std::size_t at,
                                           const capability::record& found, bool quiet) {
    CHECK_FALSE(found.reasons[at].empty());
    if (quiet && found.findings[at] == finding::no && host_profile() == "strict")
      CHECK_MESSAGE(found.reasons[at].find("hipErrorOperatingSystem") != std::string::npos,
                    found.reasons[at]);
  });
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"},
                       std::filesystem::directory_iterator{});
}

/// Checks that the last child is gone and reaped.
void check_no_child_left() {
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

HIPVMM_TEST_CASE_IN(
    "probes: a process that hangs in a probe twice is killed, and that answered with no",
    {"HIPVMM_HOST_PROFILE=strict", "HIPVMM_TESTS_PROBE_LATER=1",
     "HIPVMM_HOST_FAULTS=hipMemSetAccess delay=60s"}) {
  // Longer than any start of the program takes, even beside a full test run.
  constexpr std::chrono::seconds patience{3};
  const std::ptrdiff_t descriptors = open_descriptors();
  capability::record found = without_findings();
  CHECK(detail::probe_in_child(first_device, found, detail::find_probe_program().path, patience) ==
        "");
  CHECK(found.findings[index_of(trait::virtual_memory)] == finding::no);
  CHECK(found.reasons[index_of(trait::virtual_memory)] ==
        "the process that probed it did nothing for 6000 ms, and before for 3000 ms");
  CHECK(found.persistences[index_of(trait::virtual_memory)] == persistence::dated);
  CHECK_FALSE(found.is_open());
  check_no_child_left();
  CHECK(open_descriptors() == descriptors);
}

// Each process frees addresses once before it crashes.
HIPVMM_TEST_CASE_IN("probes: after a few processes that crashed no more are started",
                    {"HIPVMM_TESTS_PROBE_LATER=1",
                     "HIPVMM_HOST_FAULTS=hipMemAddressFree nth=2 abort"}) {
  const std::ptrdiff_t descriptors = open_descriptors();
  capability::record found = without_findings();
  CHECK(detail::probe_in_child(first_device, found, detail::find_probe_program().path) == "");
  CHECK(found.findings[index_of(trait::virtual_memory)] == finding::yes);
  // Not one of the rest was taken for granted, nor left for this process to try.
  CHECK_FALSE(found.is_open());
  CHECK(found.findings[index_of(trait::keeps_read_only)] == finding::unknown);
  CHECK(found.persistences[index_of(trait::keeps_read_only)] == persistence::passing);
  CHECK(found.reasons[index_of(trait::keeps_read_only)] ==
        "not probed: 5 processes ended, one after another, while they probed");
  check_no_child_left();
  CHECK(open_descriptors() == descriptors);
}

/// A program that begins a probe and ends by a signal there.
class signalled_program {
 public:
  explicit signalled_program(const std::string& command)
      : path_{(folder_.path() / "program.sh").string()} {
    std::ofstream{path_} << "#!/bin/sh\n"
                         << "echo begin tail_access\n"
                         << command << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  /// The result of the probe.
  [[nodiscard]] capability::record ask(std::chrono::milliseconds patience = std::chrono::seconds{
                                           5}) const {
    capability::record found = without_findings();
    CHECK(detail::probe_in_child(first_device, found, path_, patience) == "");
    return found;
  }

 private:
  temporary_folder folder_;
  std::string path_;
};

TEST_CASE("probes: a process that a signal from outside ends has answered nothing") {
  constexpr std::size_t at = index_of(trait::tail_access);
  for (const char* signal : {"KILL", "TERM", "INT", "HUP", "QUIT", "XCPU", "USR1"}) {
    CAPTURE(signal);
    const capability::record found =
        signalled_program{"kill -" + std::string{signal} + " $$"}.ask();
    CHECK(found.findings[at] == finding::unknown);
    CHECK(found.persistences[at] == persistence::passing);
    CHECK(found.reasons[at].find("ended from outside by signal ") != std::string::npos);
  }
  for (const char* signal : {"SEGV", "ABRT", "BUS", "ILL", "FPE", "TRAP", "SYS"}) {
    CAPTURE(signal);
    const capability::record found =
        signalled_program{"kill -" + std::string{signal} + " $$"}.ask();
    CHECK(found.findings[at] == finding::no);
    CHECK(found.persistences[at] == persistence::lasting);
    CHECK(found.reasons[at].find("crashed by signal ") != std::string::npos);
  }
}

TEST_CASE("probes: each that a process was silent in is asked again, more patiently") {
  const temporary_folder folder;
  const auto silent_once = [&](const std::string& name) {
    const std::string seen = (folder.path() / name).string();
    return "case $3 in *," + name + ",*) ;; *) echo begin " + name + "\nif [ ! -e " + seen +
           " ]; then : > " + seen + "; exec sleep 60; fi\nsleep 1.2\necho '" + name +
           "=yes  # it was seen'\nesac\n";
  };
  const capability::record found =
      signalled_program{silent_once("tail_access") + silent_once("keeps_read_only") + "echo end"}
          .ask(std::chrono::seconds{1});
  for (const trait each : {trait::tail_access, trait::keeps_read_only}) {
    CAPTURE(index_of(each));
    CHECK(found.findings[index_of(each)] == finding::yes);
    CHECK(found.persistences[index_of(each)] == persistence::lasting);
  }
}

/// While it lives, the system reaps this process's children itself and reports no end of one.
class ignored_children {
 public:
  ignored_children() {
    const bool ignored = std::signal(SIGCHLD, SIG_IGN) != SIG_ERR;
    REQUIRE(ignored);
  }
  ~ignored_children() { std::signal(SIGCHLD, SIG_DFL); }
  ignored_children& operator=(ignored_children&&) = delete;
};

TEST_CASE("probes: an end that the system does not report has answered nothing") {
  constexpr std::size_t at = index_of(trait::tail_access);
  const ignored_children ignored;
  const capability::record found = signalled_program{"kill -SEGV $$"}.ask();
  CHECK(found.findings[at] == finding::unknown);
  CHECK(found.persistences[at] == persistence::passing);
  CHECK_MESSAGE(found.reasons[at].find("SIGCHLD") != std::string::npos, found.reasons[at]);
}

HIPVMM_TEST_CASE_IN("probes: the program itself reports a crash to who ignores ends of children",
                    {"HIPVMM_TESTS_PROBE_LATER=1",
                     "HIPVMM_HOST_FAULTS=hipMemSetAccess nth=1 abort"}) {
  const ignored_children ignored;
  capability::record found = without_findings();
  CHECK(detail::probe_in_child(first_device, found, detail::find_probe_program().path) == "");
  CHECK(found.findings[index_of(trait::virtual_memory)] == finding::no);
  CHECK(found.persistences[index_of(trait::virtual_memory)] == persistence::lasting);
  CHECK_MESSAGE(found.reasons[index_of(trait::virtual_memory)].find("crashed by signal 6") !=
                    std::string::npos,
                found.reasons[index_of(trait::virtual_memory)]);
}

TEST_CASE("probes: what a terminal sends to the application's group does not reach the process") {
  const capability::record found =
      signalled_program{
          "read -r pid name state parent group rest </proc/$$/stat\n"
          "test $group = $$ && exit 7\n"
          "exit 8"}
          .ask();
  CHECK(found.reasons[index_of(trait::tail_access)] ==
        "the process that probed it ended with status 7");
}

TEST_CASE("probes: signals that the application ignores or blocks do not reach the process") {
  const ignored_children ignored;
  capability::record found = without_findings();
  CHECK(detail::probe_in_child(first_device, found, detail::find_probe_program().path) == "");
  CHECK(found.findings[index_of(trait::virtual_memory)] == finding::yes);
  CHECK_FALSE(found.is_open());
}

TEST_CASE("probes: a process that sees another device by that number answers nothing") {
  capability::record found = without_findings();
  found.fingerprint += ", another";
  const std::string why =
      detail::probe_in_child(first_device, found, detail::find_probe_program().path);
  CHECK(why.find("sees another device by that number: " + first_device.name()) !=
        std::string::npos);
  CHECK(found.persistences[index_of(trait::virtual_memory)] == persistence::open);
  check_no_child_left();
}

TEST_CASE("probes: a program that is none is told of") {
  capability::record found = without_findings();
  CHECK(detail::probe_in_child(first_device, found, "/nonexistent/probe")
            .find("no process could be started for probes: /nonexistent/probe: ") == 0);
  CHECK(detail::probe_in_child(first_device, found, "/bin/false") ==
        "/bin/false ended with status 1");
  CHECK(detail::probe_in_child(first_device, found, "/bin/echo")
            .find("/bin/echo said what is none of its lines: ") == 0);
  check_no_child_left();
}

HIPVMM_CHILD("looks for the program of probes") {
  const detail::probe_program found = detail::find_probe_program();
  std::printf("found [%s] because [%s]\n", found.path.c_str(), found.why_not.c_str());
}

TEST_CASE("probes: a program that other users could have put there is not started") {
  namespace fs = std::filesystem;
  const test::temporary_folder folder;
  const fs::path bin = folder.path() / "program" / "bin";
  fs::create_directories(bin);
  const fs::path program = bin / "test_vmm";
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  const fs::path planted = folder.path() / "program" / "libexec" / "hipvmm" / "hipvmm-probe";
  fs::create_directories(planted.parent_path());
  std::ofstream{planted} << "#!/bin/sh\n";
  fs::permissions(planted, fs::perms::owner_all);
  const auto look = [&] {
    return test::run(program.string(), {"--child=looks for the program of probes"}).out;
  };
  CHECK(look().find("found [" + planted.string() + "]") != std::string::npos);
  for (const fs::path& part : {planted, planted.parent_path(), folder.path() / "program"}) {
    CAPTURE(part.string());
    const fs::perms before = fs::status(part).permissions();
    fs::permissions(part, fs::perms::others_write, fs::perm_options::add);
    const std::string told = look();
    CHECK(told.find(planted.string()) == std::string::npos);
    fs::permissions(part, before);
  }
}

constexpr const char* construction_notes = "HIPVMM_TESTS_CONSTRUCTION_NOTES";

/// Work of a program before main(), which a process that probes must not do again.
const bool noted_construction = [] {
  if (const char* const notes = std::getenv(construction_notes))
    std::ofstream{notes, std::ios::app} << "constructed\n";
  return true;
}();

HIPVMM_CHILD("probes a device by the program found") {
  const detail::probe_program program = detail::find_probe_program();
  capability::record found = without_findings();
  std::printf("by [%s] because [%s]\n", program.path.c_str(),
              detail::probe_in_child(first_device, found, program.path).c_str());
  for (const finding each : found.findings) std::printf("%s\n", std::string{name_of(each)}.c_str());
  check_no_child_left();
}

TEST_CASE("probes: a program without hipvmm-probe beside it probes by itself, before its main()" *
          names_its_profiles) {
  namespace fs = std::filesystem;
  REQUIRE(noted_construction);
  const test::temporary_folder folder;
  const fs::path program = folder.path() / "moved";
  const fs::path notes = folder.path() / "notes";
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  for (const char* profile : {"strict", "rocm-6.4", "rocm-7.2", "rocm-7.14"}) {
    CAPTURE(profile);
    fs::remove(notes);
    const auto run_it = [&](const std::string& with) {
      return test::run("/usr/bin/env",
                       {"HIPVMM_HOST_PROFILE=" + std::string{profile}, with,
                        construction_notes + ("=" + notes.string()), program.string(),
                        "--child=probes a device by the program found"})
          .out;
    };
    const std::string told = run_it("HIPVMM_TESTS=1");
    CHECK(told.find("by [/proc/self/exe] because []") != std::string::npos);
    CHECK(content_of(notes) == "constructed\n");
    const fs::path helper = fs::read_symlink("/proc/self/exe").parent_path() / "hipvmm-probe";
    const std::string by_helper = run_it("HIPVMM_PROBE=" + helper.string());
    REQUIRE(by_helper.find("by [" + helper.string() + "] because []") != std::string::npos);
    CHECK(told.substr(told.find("because")) == by_helper.substr(by_helper.find("because")));
    CHECK(run_it("HIPVMM_PROBE=none").find("by [] because [") != std::string::npos);
  }
}

TEST_CASE("probes: a program that probes says that its arguments are wrong") {
  namespace fs = std::filesystem;
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const auto ask = [](const std::string& name, const fs::path& file, const std::string& argument) {
    return test::run("/bin/bash", {"-c", "exec -a \"$@\"", "bash", name, file.string(), argument});
  };
  for (const auto& [name, file] : {std::pair{std::string{detail::own_probe_name}, program},
                                   {"probe", program.parent_path() / "hipvmm-probe"}}) {
    const test::outcome wrong = ask(name, file, "first");
    CHECK(wrong.status == 2);
    CHECK(wrong.out.empty());
    CHECK(wrong.err ==
          "hipvmm-probe: 'first' is no request; usage: hipvmm-probe DEVICE [--without NAME,... "
          "[--watch]]\n");
    const test::outcome absent = ask(name, file, "99");
    CHECK(absent.status == 2);
    CHECK(absent.err.find("hipvmm-probe: ") == 0);
    CHECK(absent.err.find("99") != std::string::npos);
  }
}

TEST_CASE("probes: a program that its loader was told to start is not started again") {
  namespace fs = std::filesystem;
  const test::temporary_folder folder;
  const fs::path program = folder.path() / "moved";
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  Dl_info loader{};
  REQUIRE(::dladdr(reinterpret_cast<const void*>(::getauxval(AT_BASE)), &loader) != 0);
  CHECK(test::run(loader.dli_fname, {program.string(), "--child=looks for the program of probes"})
            .out.find("found [] because [the program hipvmm-probe was not found") !=
        std::string::npos);
}

TEST_CASE("probes: what fails before the first probe answers none") {
  for (const char* function :
       {"hipDeviceGetAttribute", "hipMemGetAllocationGranularity", "hipStreamCreateWithFlags"}) {
    CAPTURE(function);
    capability::record found;
    const copy_kernel none;
    const planned_fault fault{function, 1, hipErrorOperatingSystem};
    detail::run_probes(first_device, found, {[](const probe&) { return true; }, none});
    CHECK(fault.struck());
    CHECK(found.persistences[index_of(trait::virtual_memory)] == persistence::open);
    CHECK(found.findings[index_of(trait::virtual_memory)] == finding::unknown);
    CHECK(found.reasons[index_of(trait::virtual_memory)] ==
          "not found out: " + std::string{function} +
              " gave hipErrorOperatingSystem when the device was asked about itself");
  }
}

HIPVMM_TEST_CASE_IN(
    "probes: whether frees wait is not found out by time where each of them takes long",
    {"HIPVMM_TESTS_PROBE_LATER=1", "HIPVMM_HOST_FAULTS=hipFree delay=120ms"}) {
  for (const probe& each : detail::all_probes()) {
    if (each.first != trait::free_waits) continue;
    capability::record found;
    run_alone(each, found);
    CHECK(found.findings[index_of(trait::free_waits)] == finding::unknown);
    CHECK(found.persistences[index_of(trait::free_waits)] == persistence::open);
    CHECK(found.reasons[index_of(trait::free_waits)].find("on an idle device") !=
          std::string::npos);
  }
}

TEST_CASE("probes: one that finds nothing to export answers for itself alone") {
  for (const probe& each : detail::all_probes()) {
    if (each.first != trait::shares_chunks && each.first != trait::imports_by_value) continue;
    CAPTURE(each.name);
    capability::record found;
    const planned_fault fault{"hipMemCreate", 1, hipErrorNotSupported};
    run_alone(each, found);
    CHECK(fault.struck());
    for (const trait which : {trait::shares_chunks, trait::imports_by_value})
      CHECK((found.persistences[index_of(which)] == persistence::open) == (which != each.first));
  }
}

// NVIDIA's driver refused the chunk of one probe so, in a process that started beside others.
TEST_CASE("probes: a refused chunk, which an earlier probe got, is no answer") {
  for (const char* const plan : {"hipMemCreate nth=1 error=hipErrorInvalidValue",
                                 "hipMemCreate error=hipErrorInvalidValue"}) {
    CAPTURE(plan);
    const bool once = std::string_view{plan}.find("nth") != std::string_view::npos;
    capability::record found;
    const planned_faults faults{plan};
    for (const probe& each : detail::all_probes())
      if (each.first == trait::returns_memory) run_alone(each, found);
    CHECK((found.persistences[index_of(trait::returns_memory)] == persistence::open) == !once);
    CHECK((found.findings[index_of(trait::returns_memory)] == finding::unknown) == !once);
  }
}

TEST_CASE("probes: copies across reservations are not known where no two are neighbours") {
  capability::record found;
  const hipvmm_host_counters before = live_objects();
  const planned_faults elsewhere{"hints=ignored"};
  for (const probe& each : detail::all_probes())
    if (each.first == trait::crosses_reservations) run_alone(each, found);
  CHECK(found.findings[index_of(trait::crosses_reservations)] == finding::unknown);
  CHECK(found.persistences[index_of(trait::crosses_reservations)] == persistence::dated);
  CHECK(found.reasons[index_of(trait::crosses_reservations)] ==
        "not found out: no two neighbouring reservations could be made");
  CHECK(live_objects() == before);
}

TEST_CASE("probes: what is known already is not asked again") {
  capability::record found = without_findings();
  for (const probe& each : detail::all_probes())
    for (std::size_t i = 0; i < each.count; ++i)
      found.set(static_cast<trait>(index_of(each.first) + i), finding::yes, "known before",
                persistence::lasting);
  found.persistences[index_of(trait::crosses_chunks)] = persistence::open;
  CHECK(detail::probe_in_child(first_device, found, detail::find_probe_program().path) == "");
  CHECK(found.reasons[index_of(trait::crosses_chunks)] ==
        "copies spanned two neighbouring mappings");
  CHECK(found.reasons[index_of(trait::tail_access)] == "known before");
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
