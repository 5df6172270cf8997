// SPDX-License-Identifier: MIT
// The probes' findings for each release that the host provider imitates. Each row is a process of
// its own, with a cache of its own.
#include <fstream>

#include <hipvmm/capability/capability.hpp>
#include "releases.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* telling_child = "tells what it has";

HIPVMM_CHILD("tells what it has") {
  const capability known = capability_of(first_device);
  std::printf("<path=%s>\n", std::string{name_of(known.path())}.c_str());
  for (const quirk each : known.quirks())
    std::printf("<quirk=%s>\n", std::string{name_of(each)}.c_str());
  for (std::size_t i = 0; i < trait_count; ++i) {
    const auto which = static_cast<trait>(i);
    std::printf("<%s=%s>%s\n", std::string{name_of(which)}.c_str(),
                std::string{name_of(known[which])}.c_str(), known.reason(which).c_str());
  }
  std::printf("<origin>%s\n<delay>%lld\n", known.origin().c_str(),
              static_cast<long long>(known.visibility_delay().count()));
}

/// The report of a process with this environment and an empty cache on its first device.
class told_by_child {
 public:
  explicit told_by_child(std::vector<std::string> environment) {
    ask_again(std::move(environment));
  }
  /// Another process, with the findings of the first one in the cache.
  void ask_again(std::vector<std::string> environment) {
    environment.push_back("XDG_CACHE_HOME=" + cache_.path().string());
    // Else main() probes all devices.
    environment.emplace_back("HIPVMM_TESTS_PROBE_LATER=1");
    const child_result child = run_child(telling_child, environment);
    output_ = child.output;
    CHECK_MESSAGE(passed(child), child.output);
  }

  [[nodiscard]] bool tells(const std::string& line) const {
    return output_.find(line) != std::string::npos;
  }
  void check_tells(const std::string& line) const {
    CAPTURE(line);
    CHECK_MESSAGE(tells(line), output_);
  }
  void check_finding(std::string_view trait, std::string_view expected) const {
    const std::string line = '<' + std::string{trait} + '=' + std::string{expected} + '>';
    check_tells(line);
  }
  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] std::set<std::string> quirks() const {
    std::set<std::string> found;
    for (std::size_t at = 0; (at = output_.find("<quirk=", at)) != std::string::npos; ++at)
      found.insert(output_.substr(at + 7, output_.find('>', at) - at - 7));
    return found;
  }
  [[nodiscard]] const std::filesystem::path& cache() const { return cache_.path(); }

 private:
  temporary_folder cache_;
  std::string output_;
};

TEST_SUITE_BEGIN("in processes with profiles of their own" * names_its_profiles);

TEST_CASE("capability: probes find in each profile of ROCm what the table of traits says") {
  for (const std::string release : {"5.7", "6.2", "6.4", "7.1", "7.2", "7.14", "10"}) {
    CAPTURE(release);
    const told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-" + release}};
    const capability::record expected = record_of(release);
    told.check_tells("<path=" + std::string{name_of(expected.path)} + ">");
    std::set<std::string> quirks;
    for (const quirk each : expected.quirks) quirks.emplace(name_of(each));
    CHECK(told.quirks() == quirks);
    for (std::size_t i = 0; i < trait_count; ++i)
      told.check_finding(trait_table[i].name, name_of(expected.findings[i]));
  }
}

TEST_CASE("capability: probes find no defect in the other profiles") {
  struct profile_row {
    std::string profile;
    std::set<std::string_view> missing, unknown;  // all other traits are there
  };
  for (const profile_row& each :
       {profile_row{"strict", {"host_chunks", "host_node_chunks", "uncached_chunks"}, {}},
        // Probed in the process: the unknown ones need another process.
        profile_row{"cuda-13",
                    {"uncached_chunks"},
                    {"peer_access", "peer_copies", "keeps_read_only", "host_access"}}}) {
    CAPTURE(each.profile);
    const told_by_child told{{"HIPVMM_HOST_PROFILE=" + each.profile}};
    told.check_tells("<path=vmm>");
    for (const trait_row& row : trait_table)
      told.check_finding(row.name, each.missing.count(row.name) != 0   ? "no"
                                   : each.unknown.count(row.name) != 0 ? "unknown"
                                                                       : "yes");
  }
}

TEST_CASE("capability: a process is started for probes on AMD's runtime, none on CUDA") {
  told_by_child{{"HIPVMM_HOST_PROFILE=rocm-7.14"}}.check_tells(
      "<origin>probed now in a process of its own; kept in /");
  told_by_child{{"HIPVMM_HOST_PROFILE=cuda-13"}}.check_tells(
      "<origin>probed now in this process; kept in /");
}

TEST_CASE("capability: the next process reads what the first has found") {
  for (const char* profile : {"HIPVMM_HOST_PROFILE=rocm-6.4", "HIPVMM_HOST_PROFILE=cuda-13"}) {
    told_by_child told{{profile}};
    const std::set<std::string> quirks = told.quirks();
    told.ask_again({profile});
    told.check_tells("<origin>read from " + told.cache().string());
    CHECK_FALSE(told.tells("probed now"));
    CHECK(told.quirks() == quirks);
  }
}

TEST_CASE("capability: other settings of the devices meet no record of theirs") {
  told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-6.4"}};
  told.ask_again({"HIPVMM_HOST_PROFILE=rocm-7.14"});
  told.check_tells("<origin>probed now");
  CHECK(told.quirks() == std::set<std::string>{"larger_chunks", "one_reservation"});
}

TEST_CASE("capability: without a process of their own, risky probes are answered by the version") {
  for (const char* probe : {"HIPVMM_PROBE=none", "HIPVMM_PROBE=/nonexistent/hipvmm-probe",
                            "HIPVMM_PROBE=/bin/true", "HIPVMM_PROBE=/bin/echo"}) {
    told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-6.4", probe}};
    told.check_tells("<path=vmm_with_quirks>");
    told.check_tells("<tail_access=yes>");
    told.check_tells("<imports_by_value=no>by the version of the runtime, 60400000");
    told.check_tells("<reports_failed_map=no>by the version of the runtime, 60400000");
    told.check_tells("<keeps_read_only=unknown>not probed: ");
    // Expectations from the version are not kept: the next process may ask.
    told.ask_again({"HIPVMM_HOST_PROFILE=rocm-6.4"});
    told.check_tells(", the rest probed now in a process of its own; kept in");
    told.check_tells("<keeps_read_only=yes>");
    told.check_tells("<imports_by_value=no>");
    CHECK_FALSE(told.tells("by the version of the runtime"));
  }
}

TEST_CASE("capability: a probe whose process dies is answered with no, and the others go on") {
  const told_by_child told{
      {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_FAULTS=hipMemGetInfo abort"}};
  told.check_tells("<returns_memory=no>the process that probed it crashed by signal 6 (Aborted)");
  told.check_tells("<returns_with_addresses=no>");
  told.check_tells("<tail_access=yes>");
  told.check_tells("<keeps_read_only=yes>");
  CHECK(told.quirks() == std::set<std::string>{"larger_chunks", "one_reservation"});
}

std::string only_file_in(const std::filesystem::path& folder) {
  for (const auto& each : std::filesystem::recursive_directory_iterator{folder})
    if (each.is_regular_file() && each.path().string().find("capability-") != std::string::npos)
      return each.path().string();
  return {};
}

TEST_CASE("capability: a probe whose process is killed from outside is not answered on disk") {
  const told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_DEVICES=1",
                            "HIPVMM_HOST_PEERS=none", "HIPVMM_HOST_FAULTS=hipMemGetInfo kill"}};
  told.check_tells(
      "<returns_memory=unknown>not found out: the process that probed it was ended "
      "from outside by signal 9 (Killed)");
  told.check_tells("<tail_access=yes>");
  const std::string kept = content_of(only_file_in(told.cache()));
  CHECK(kept.find("tail_access=yes") != std::string::npos);
  CHECK(kept.find("returns_memory") == std::string::npos);
}

TEST_CASE("capability: where nothing can be mapped without a crash there is no virtual memory") {
  const told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_FAULTS=hipMemMap abort"}};
  told.check_tells("<virtual_memory=no>the process that probed it crashed by signal 6 (Aborted)");
  told.check_tells("<path=fallback>");
}

TEST_CASE("capability: processes that keep dying end the search, and what they found stays") {
  const told_by_child told{
      {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_FAULTS=hipMemMap nth=2 abort"}};
  told.check_tells("<virtual_memory=yes>");
  told.check_tells("<several_reservations=no>the process that probed it crashed");
  told.check_tells("<path=fallback>");
}

TEST_CASE("capability: mappings that are seen late are measured, and spoil no other answer") {
  for (const char* profile : {"HIPVMM_HOST_PROFILE=strict", "HIPVMM_HOST_PROFILE=cuda-13"}) {
    CAPTURE(profile);
    // A machine that stands still at first is not taken for one that loses writes.
    const told_by_child told{
        {profile, "HIPVMM_HOST_FAULTS=visible_after=10ms; hipStreamSynchronize nth=1 delay=110ms"}};
    told.check_tells("<visible_at_once=no>copies missed a new mapping for ");
    CHECK(told.quirks() == std::set<std::string>{"wait_until_visible"});
    for (const char* line : {"<crosses_chunks=yes>", "<coherent_aliases=yes>", "<tail_access=yes>",
                             "<base_access=yes>", "<unmaps_each=yes>", "<shares_chunks=yes>"}) {
      CAPTURE(line);
      told.check_tells(line);
    }
    const std::size_t at = told.output().find("<delay>");
    REQUIRE(at != std::string::npos);
    // Twice the time for which the mapping is hidden.
    CHECK(std::atoll(told.output().c_str() + at + 7) >= 20'000'000);
  }
}

TEST_CASE("capability: aliases that are not coherent are found") {
  for (const char* profile : {"HIPVMM_HOST_PROFILE=strict", "HIPVMM_HOST_PROFILE=cuda-13"}) {
    CAPTURE(profile);
    const told_by_child told{{profile, "HIPVMM_HOST_FAULTS=aliases=incoherent"}};
    told.check_tells(
        "<coherent_aliases=no>what was written at one address of a chunk was not read "
        "at another");
    CHECK(told.quirks() == std::set<std::string>{"no_aliases"});
    told.check_tells("<shares_chunks=yes>");
  }
}

TEST_CASE("capability: a refusal of HIP is a no with the error as its reason") {
  const told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-7.14",
                            "HIPVMM_HOST_FAULTS=hipMemExportToShareableHandle "
                            "error=hipErrorNotSupported"}};
  told.check_tells(
      "<shares_chunks=no>hipMemExportToShareableHandle gave hipErrorNotSupported when "
      "a chunk was exported");
}

TEST_CASE("capability: a shortage is no finding, and is not kept") {
  for (const char* limit :
       {"memory=1MiB", "descriptors=0", "hipMemAddressReserve error=hipErrorOutOfMemory"}) {
    for (const char* profile : {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_PROFILE=cuda-13"}) {
      CAPTURE(limit);
      CAPTURE(profile);
      const told_by_child told{{profile, "HIPVMM_HOST_FAULTS=" + std::string{limit}}};
      told.check_tells("<virtual_memory=unknown>not found out: ");
      told.check_tells("; not kept, for nothing was found out that would last");
      CHECK_FALSE(told.tells("=no>"));
      CHECK_FALSE(std::filesystem::exists(told.cache() / "hipvmm"));
    }
  }
}

TEST_CASE("capability: map that is out of memory on an empty device is a no, and is not kept") {
  const told_by_child told{
      {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_FAULTS=hipMemMap error=hipErrorOutOfMemory"}};
  told.check_tells(
      "<virtual_memory=no>hipMemMap gave hipErrorOutOfMemory when a chunk was mapped, "
      "each time");
  told.check_tells("<path=fallback>");
  told.check_tells("; not kept, for nothing was found out that would last");
}

TEST_CASE("HIPVMM_CAPABILITY: reprobe passes over the cache and writes it anew") {
  told_by_child told{{"HIPVMM_HOST_PROFILE=rocm-7.14"}};
  told.ask_again({"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_CAPABILITY=reprobe"});
  told.check_tells("<origin>probed now in a process of its own; kept in /");
}

TEST_CASE(
    "HIPVMM_CAPABILITY: assumptions count after all findings, and are kept out of the cache") {
  told_by_child told{
      {"HIPVMM_HOST_PROFILE=rocm-7.14",
       "HIPVMM_CAPABILITY=assume:tail_access=no,visible_at_once=no;assume:visibility_delay=7us,"
       "descriptors_per_chunk=1"}};
  told.check_tells("<tail_access=no>assumed by HIPVMM_CAPABILITY");
  told.check_tells(
      "; assumed by HIPVMM_CAPABILITY: tail_access=no, visible_at_once=no, "
      "visibility_delay=7us, descriptors_per_chunk=1");
  told.check_tells("<delay>7000\n");
  CHECK(told.quirks() == std::set<std::string>{"access_from_base", "wait_until_visible",
                                               "larger_chunks", "one_reservation"});
  told.ask_again({"HIPVMM_HOST_PROFILE=rocm-7.14"});
  CHECK(told.quirks() == std::set<std::string>{"larger_chunks", "one_reservation"});
  told.check_tells("<tail_access=yes>");
}

TEST_CASE("HIPVMM_CAPABILITY: assumptions may lead to the fallback") {
  const told_by_child told{
      {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_CAPABILITY=assume:virtual_memory=no"}};
  told.check_tells("<path=fallback>");
}

TEST_CASE("HIPVMM_CAPABILITY: a file is taken for the device that it is about, and no other") {
  const std::string alone = "HIPVMM_HOST_DEVICES=1";
  const std::string peers = "HIPVMM_HOST_PEERS=none";
  const std::string profile = "HIPVMM_HOST_PROFILE=rocm-7.14";
  const told_by_child first{{profile, alone, peers}};
  const std::string file = only_file_in(first.cache());
  REQUIRE_FALSE(file.empty());
  told_by_child told{{profile, alone, peers, "HIPVMM_CAPABILITY=" + file}};
  told.check_tells("<origin>read from " + file);
  told.ask_again({"HIPVMM_HOST_PROFILE=rocm-6.4", alone, peers, "HIPVMM_CAPABILITY=" + file});
  told.check_tells(file + " is ignored: it is about");
  told.check_tells("<origin>probed now");
}

TEST_CASE("HIPVMM_CAPABILITY: what a file says is kept out of the cache, with what it leaves out") {
  const std::vector<std::string> alone{"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_DEVICES=1",
                                       "HIPVMM_HOST_PEERS=none"};
  const told_by_child first{alone};
  const std::string file = only_file_in(first.cache());
  std::string text = content_of(file);
  const std::size_t left_out = text.find("crosses_chunks=");
  REQUIRE(left_out != std::string::npos);
  text.erase(left_out, text.find('\n', left_out) + 1 - left_out);
  text.replace(text.find("tail_access=yes"), 15, "tail_access=no");
  std::ofstream{file, std::ios::trunc} << text;
  std::vector<std::string> named = alone;
  named.push_back("HIPVMM_CAPABILITY=" + file);
  const told_by_child told{named};
  told.check_tells("<tail_access=no>");
  told.check_tells("<crosses_chunks=yes>");
  told.check_tells(
      ", the rest probed now in a process of its own; not kept, for it began with a "
      "file that HIPVMM_CAPABILITY names");
  CHECK(only_file_in(told.cache()).empty());
}

TEST_CASE("HIPVMM_CAPABILITY: what is not understood is an error that names it") {
  for (const char* part : {"reprobing", "assume", "/nonexistent/file", "assume:tail=no",
                           "assume:minimum_granularity=4096"}) {
    CAPTURE(part);
    const child_result child = run_child(telling_child, {"HIPVMM_CAPABILITY=" + std::string{part}});
    CHECK(child.status == 2);
    CHECK(child.output.find("HIPVMM_CAPABILITY: \"") != std::string::npos);
    CHECK(child.output.find(std::string{part}.substr(std::string{part}.find(':') + 1)) !=
          std::string::npos);
  }
}

TEST_CASE("capability: without a folder for the cache the record says so") {
  const child_result child =
      run_child(telling_child, {"XDG_CACHE_HOME=relative", "HOME=", "HIPVMM_HOST_PROFILE=rocm-7.14",
                                "HIPVMM_TESTS_PROBE_LATER=1"});
  CHECK_MESSAGE(passed(child), child.output);
  CHECK(child.output.find("<origin>probed now in a process of its own; not kept, for there is "
                          "neither XDG_CACHE_HOME nor HOME") != std::string::npos);
}

TEST_CASE("capability: a cache that cannot be written is told of") {
  const child_result child = run_child(
      telling_child,
      {"XDG_CACHE_HOME=/proc/self", "HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_TESTS_PROBE_LATER=1"});
  CHECK_MESSAGE(passed(child), child.output);
  CHECK(child.output.find("; not kept, for its folder cannot be made: ") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
