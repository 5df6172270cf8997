// SPDX-License-Identifier: MIT
#include "tool/replay/replay_report.hpp"

#include <nlohmann/json.hpp>

#include "support/test.hpp"
#include "tool/printable.hpp"
#include "tool/replay/replay_timeline.hpp"

namespace hipvmm::test {
namespace {

struct reported {
  tool::trace recorded;
  tool::replay_result result;
  reported() {
    recorded.name = "trace\xff.csv";
    recorded.events.resize(7);
    recorded.streams = 2;
    recorded.seconds = 10;
    result.streams = 1;
    result.peak_requested = 64 * MiB;
    result.peak_physical = 80 * MiB;
    for (std::uint64_t ns = 1; ns <= 100; ++ns) result.pair_ns.push_back(ns * 10);
    result.epochs.resize(2);
    result.epochs[0] = {{100, 5'000'000, 400, 900, 2'000'000},
                        {90, 40'000, 300, 700, 800},
                        64 * MiB,
                        80 * MiB,
                        1.5,
                        1.75};
    result.epochs[1].peak_requested = 60 * MiB;
    result.epochs[1].peak_physical = 63 * MiB;
    result.calls = {{"hipMalloc", 40, 0.5}, {"hipFree", 30, 0.25}};
    result.seconds = 2;
  }
  [[nodiscard]] tool::replay_report report() const {
    return {recorded, "hip", "device 0 (a device)", result, std::nullopt};
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("replay_report: JSON has every figure") {
  const reported all;
  const std::string text = json_of(all.report());
  CHECK(text.ends_with("}\n"));
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(contains(json["trace"].get<std::string>(), "trace"));
  CHECK(json["resource"] == "hip");
  CHECK(json["events"] == 7);
  CHECK(json["streams"] == 1);
  CHECK(json["peak_requested"] == 64 * MiB);
  CHECK(json["peak_physical"] == 80 * MiB);
  CHECK(json["ratio"].get<double>() == doctest::Approx(1.25));
  CHECK(json["pair_ns_p50"] == 500);
  CHECK(json["pair_ns_p99"] == 990);
  CHECK(json["driver_calls"] == 70);
  CHECK(json["driver_seconds"].get<double>() == doctest::Approx(0.75));
  CHECK(json["driver"]["hipFree"]["count"] == 30);
  CHECK(json["driver"]["hipFree"]["seconds"].get<double>() == doctest::Approx(0.25));
  CHECK(json["seconds"].get<double>() == doctest::Approx(2));
  CHECK(json["recorded_seconds"].get<double>() == doctest::Approx(10));
  REQUIRE(json["epochs"].size() == 2);
  const nlohmann::json& epoch = json["epochs"][0];
  CHECK(epoch["allocate"]["calls"] == 100);
  CHECK(epoch["allocate"]["total_ns"] == 5'000'000);
  CHECK(epoch["allocate"]["p50_ns"] == 400);
  CHECK(epoch["allocate"]["p99_ns"] == 900);
  CHECK(epoch["allocate"]["longest_ns"] == 2'000'000);
  CHECK(epoch["deallocate"]["calls"] == 90);
  CHECK(epoch["deallocate"]["longest_ns"] == 800);
  CHECK(epoch["peak_requested"] == 64 * MiB);
  CHECK(epoch["peak_physical"] == 80 * MiB);
  CHECK(epoch["ratio"].get<double>() == doctest::Approx(1.25));
  CHECK(epoch["seconds"].get<double>() == doctest::Approx(1.5));
  CHECK(epoch["seconds_until_done"].get<double>() == doctest::Approx(1.75));
  CHECK(json["epochs"][1]["ratio"].get<double>() == doctest::Approx(1.05));
  CHECK(json["busy_bytes"].is_null());
  CHECK(json["failures"] == 0);
  CHECK(json["verified"].is_null());
  CHECK_FALSE(json.contains("checked"));
}

TEST_CASE("replay_report: a replay is verified when it was checked and nothing failed") {
  reported all;
  all.result.checked = {7, 4096, 1024};
  CHECK(nlohmann::json::parse(json_of(all.report()))["verified"] == true);
  CHECK(contains(text_of(all.report()), "7 blocks: 1024 B of their 4096 B"));
  all.result.failures.add("row 3: wrong");
  const nlohmann::json json = nlohmann::json::parse(json_of(all.report()));
  CHECK(json["verified"] == false);
  CHECK(json["failures"] == 1);
  CHECK(json["failure_texts"][0] == "row 3: wrong");
}

TEST_CASE("replay_report: the text names the figures") {
  const reported all;
  const std::string text = text_of(all.report());
  for (const char* part : {"7 events in 2 streams", "hip on device 0 (a device), 1 stream\n",
                           "64.00 MiB at most", "80.00 MiB at most, 1.250 of", "at most 500 ns",
                           "at most 990 ns", "hipMalloc", "7.50 % of the recorded time"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
}

TEST_CASE("replay_report: the text has a paragraph for each epoch") {
  const reported all;
  const std::string text = text_of(all.report());
  for (const char* part :
       {"epoch 1     allocate    100 calls, 5000.0 us in all; half take at most 400 ns, 99 % at "
        "most "
        "900 ns, the longest 2000.0 us\n",
        "            deallocate  90 calls, 40.0 us in all; ", "the longest 800 ns\n",
        "            physical    80.00 MiB at most, 1.250 of", "epoch 2     allocate    0 calls",
        "63.00 MiB at most, 1.050 of"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
  CHECK_FALSE(contains(text, "the GPU done"));
}

TEST_CASE("replay_report: work in flight adds when the GPU is done") {
  const reported all;
  tool::replay_report report = all.report();
  report.busy_bytes = 4096;
  CHECK(contains(text_of(report),
                 "busy        all calls made after 1500.0 ms, the GPU done after 1750.0 ms\n"));
  CHECK(nlohmann::json::parse(json_of(report))["busy_bytes"] == 4096);
}

TEST_CASE("replay_report: all failures are counted and the first are named") {
  reported all;
  for (int i = 0; i < 8; ++i) all.result.failures.add("row " + std::to_string(i));
  const std::string text = text_of(all.report());
  CHECK(contains(text, "row 4\n"));
  CHECK_FALSE(contains(text, "row 5\n"));
  CHECK(contains(text, "and 3 more\n"));
}

TEST_CASE("replay_report: a failure that repeats has one line") {
  reported all;
  for (int i = 0; i < 8; ++i) all.result.failures.add(i == 3 ? "other" : "hipFree failed");
  const std::string text = text_of(all.report());
  CHECK(contains(text, "failures    8\n            hipFree failed, 7 times\n            other\n"));
  CHECK_FALSE(contains(text, " more\n"));
  CHECK(nlohmann::json::parse(json_of(all.report()))["failure_texts"] ==
        nlohmann::json{"hipFree failed", "other"});
}

TEST_CASE("replay_report: one call is one call") {
  reported all;
  all.result.calls.front().count = 1;
  const std::string text = text_of(all.report());
  CHECK(contains(text, "hipMalloc                          1 call   500.0 ms\n"));
  CHECK(contains(text, "hipFree                           30 calls  250.0 ms\n"));
}

TEST_CASE("replay_report: thresholds that are missed are named") {
  const reported all;
  CHECK(missed(all.report(), {}).empty());
  CHECK(missed(all.report(), {1.25, 500, 990, 0.075}).empty());
  const std::vector<std::string> all_missed = missed(all.report(), {1.2, 499, 900, 0.07});
  REQUIRE(all_missed.size() == 4);
  CHECK(all_missed[0] == "--max-ratio: 1.2500 exceeds 1.2000");
  CHECK(all_missed[1] == "--max-pair-ns-p50: 500 exceeds 499");
  CHECK(all_missed[2] == "--max-pair-ns-p99: 990 exceeds 900");
  CHECK(all_missed[3] == "--max-driver-share: 0.0750 exceeds 0.0700");
}

TEST_CASE("replay_report: a share of no time cannot pass") {
  reported all;
  all.recorded.seconds = 0;
  const std::vector<std::string> result = missed(all.report(), {{}, {}, {}, 1.0});
  REQUIRE(result.size() == 1);
  CHECK(contains(result[0], "no duration"));
}

TEST_CASE("replay_timeline: the script draws what the resource tells, under a mark for the title") {
  std::vector<tool::replay_sample> samples{{0.5, 2 * MiB, {3 * MiB, 4 * MiB}},
                                           {1.0, 1 * MiB, {2 * MiB, 3 * MiB}}};
  const std::string whole = tool::timeline_script(samples);
  // Texts between double quotes and backquotes mean more to gnuplot than their letters.
  CHECK_FALSE(contains(whole, "`"));
  CHECK_FALSE(contains(whole, "\""));
  // From the first moment on, in units that the peak and the duration are some of.
  CHECK(contains(whole, "\n0 2 3 4\n500 1 2 3\n500 1 2 3\nEND\n"));
  CHECK(contains(whole, "recorded time (ms)"));
  CHECK(contains(whole, "device memory (MiB)"));
  CHECK(contains(whole, "set xrange [0:500]"));
  CHECK(contains(whole, "peak requested 2.00 MiB, peak held 3.00 MiB: 1.500 times as much"));
  CHECK(contains(whole, "title 'mapped into its addresses'"));
  // Dashes over areas, or one hides the other.
  CHECK(whole.find("'mapped into") > whole.find("'held from"));
  samples.front().held.mapped.reset();
  CHECK_FALSE(contains(tool::timeline_script(samples), "'mapped into"));
}

TEST_CASE("replay_timeline: a title is text of the picture, whatever it has") {
  const std::string title = "a<b>&\"c'`id`\n\x1b[2J $(id) hipvmm-replay-title";
  CHECK(tool::with_title("<text>hipvmm-replay-title</text>", title) ==
        "<text>a&lt;b&gt;&amp;\"c'`id`\\x0a\\x1b[2J $(id) hipvmm-replay-title</text>");
}

TEST_CASE("printable: what changes a terminal or its lines is escaped, letters stay") {
  using tool::printable;
  CHECK(printable("plain \\ 'text' \"1\"") == "plain \\ 'text' \"1\"");
  CHECK(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(printable("\x1b]0;title\x07\r\n\t\x7f") == "\\x1b]0;title\\x07\\x0d\\x0a\\x09\\x7f");
  CHECK(printable("a\n\tb\r", "\n\t") == "a\n\tb\\x0d");
  CHECK(printable(std::string_view{"\0", 1}) == "\\x00");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // CSI in one character
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m");  // and in one byte
  CHECK(printable("\xe2\x80\xae"
                  "txt") ==
        "\\xe2\\x80\\xae"
        "txt");  // right to left
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc0\x9b\xed\xa0\x80\xf4\x90\x80\x80") ==
        "\\xc0\\x9b\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
}

TEST_CASE("replay_timeline: units follow the duration and the peak") {
  struct expected {
    double seconds;
    std::size_t bytes;
    const char* time;
    const char* memory;
  };
  for (const expected& each :
       {expected{9000, 3 * GiB, "(h)", "(GiB)"}, expected{300, 1 * GiB, "(min)", "(MiB)"},
        expected{5, 1 * MiB, "(s)", "(KiB)"}, expected{5e-6, 100, "(us)", "(B)"},
        expected{0, 0, "(us)", "(B)"}}) {
    CAPTURE(each.seconds);
    const std::string script = tool::timeline_script(
        {{0, each.bytes, {each.bytes, {}}}, {each.seconds, each.bytes, {each.bytes, {}}}});
    CHECK(contains(script, each.time));
    CHECK(contains(script, each.memory));
  }
  CHECK(contains(tool::timeline_script({}), "peak requested 0 B, peak held 0 B'"));
}

}  // namespace hipvmm::test
