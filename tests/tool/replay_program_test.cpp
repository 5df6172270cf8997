// SPDX-License-Identifier: MIT
// hipvmm-replay as its users run it, on any provider.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tool/replay_program.hpp"

namespace hipvmm::test {

TEST_CASE("hipvmm-replay: a trace from standard input ends in figures") {
  const surroundings given{.standard_input = small_trace};
  const outcome ended = replay_program({"--check", "--resource", "hip"}, given);
  CAPTURE(ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.empty());
  for (const char* part : {"4 events in 2 streams", "3.86 MiB at most", "hipMalloc",
                           "checked     2 blocks", "failures    0\n"}) {
    CAPTURE(part);
    CHECK(ended.out.find(part) != std::string::npos);
  }
}

TEST_CASE("hipvmm-replay: --json - writes JSON alone, --json FILE both") {
  const temporary_file trace{small_trace, ".csv"};
  const outcome alone = replay_program(
      {trace.path(), "--resource", "hip", "--json", "-", "--streams", "one", "--check"});
  REQUIRE(alone.status == 0);
  const nlohmann::json json = nlohmann::json::parse(alone.out);
  CHECK(json["trace"] == trace.path());
  CHECK(json["events"] == 4);
  CHECK(json["streams"] == 1);
  CHECK(json["peak_requested"] == 4048576);
  CHECK(json["verified"] == true);
  CHECK(json["recorded_seconds"].get<double>() == doctest::Approx(3));

  const temporary_file file{{}, ".json"};
  const outcome both = replay_program({trace.path(), "--resource", "hip", "--json", file.path()});
  REQUIRE(both.status == 0);
  CHECK(both.out.starts_with("trace       " + trace.path()));
  CHECK(nlohmann::json::parse(file.contents())["streams"] == 2);
}

TEST_CASE("hipvmm-replay: --epochs and --busy show each epoch, in the text and in JSON") {
  const temporary_file trace{small_trace, ".csv"};
  const temporary_file file{{}, ".json"};
  const outcome ended = replay_program({trace.path(), "--resource", "hip", "--epochs", "2",
                                        "--busy", "--busy-bytes", "4KiB", "--json", file.path()});
  CAPTURE(ended.err);
  REQUIRE(ended.status == 0);
  for (const char* part : {"epoch 1 ", "epoch 2 ", "deallocate  2 calls", "the GPU done after"}) {
    CAPTURE(part);
    CHECK(ended.out.find(part) != std::string::npos);
  }
  const nlohmann::json json = nlohmann::json::parse(file.contents());
  CHECK(json["busy_bytes"] == 4096);
  REQUIRE(json["epochs"].size() == 2);
  for (const nlohmann::json& epoch : json["epochs"]) {
    CHECK(epoch["allocate"]["calls"] == 2);
    CHECK(epoch["deallocate"]["calls"] == 2);
    CHECK(epoch["peak_requested"] == 4048576);
    CHECK(epoch["seconds_until_done"].get<double>() >= epoch["seconds"].get<double>());
  }
}

TEST_CASE("hipvmm-replay: a missed threshold is named and fails behind the figures") {
  const temporary_file trace{small_trace, ".csv"};
  const outcome ended = replay_program(
      {trace.path(), "--resource", "hip", "--max-pair-ns-p99", "1", "--max-driver-share", "0"});
  check_fails(ended, 1, {"--max-pair-ns-p99: ", " exceeds 1; --max-driver-share: "});
  CHECK(ended.out.find("failures    0\n") != std::string::npos);
  // The pool counts its own memory; `hip` counts other processes' memory of the device too. How
  // long a driver takes is nothing to bet on: the case of missed() asks kept bounds of time.
  const outcome kept = replay_program({trace.path(), "--resource", "pool", "--max-ratio", "100"});
  CAPTURE(kept.err);
  CHECK(kept.status == 0);
}

TEST_CASE("hipvmm-replay: a file that is wrong is named with its row") {
  const temporary_file trace{small_trace + "0,3000004,free,c,1,1\n", ".csv"};
  const outcome ended = replay_program({trace.path(), "--resource", "hip"});
  check_fails(ended, 1, {trace.path(), "row 6", "no row before has allocated"});
  CHECK(ended.out.empty());
}

TEST_CASE("hipvmm-replay: options that make no sense are refused") {
  const temporary_file trace{small_trace, ".csv"};
  struct misuse {
    std::vector<std::string> arguments;
    std::vector<std::string> words;
    int status = 2;
  };
  const misuse cases[] = {
      {{trace.path(), "--streams", "two"}, {"--streams: there is no 'two'", "real or one"}},
      {{trace.path(), "--check-bytes", "4KiB"}, {"--check-bytes", "--check"}},
      {{trace.path(), "--check", "--check-bytes", "many"}, {"'many' is no size"}},
      {{trace.path(), "--check", "--check-bytes", "8"}, {"64 bytes"}},
      {{trace.path(), "--epochs", "0"}, {"--epochs"}},
      {{trace.path(), "--epochs", "2", "--timeline", "x.svg"}, {"--timeline", "--epochs"}},
      {{trace.path(), "--busy", "--check"}, {"--busy", "--check"}},
      {{trace.path(), "--busy-bytes", "4KiB"}, {"--busy-bytes", "--busy"}},
      {{trace.path(), "--busy", "--busy-bytes", "some"}, {"'some' is no size"}},
      {{trace.path(), "--max-ratio", "-1"}, {"--max-ratio: '-1' is no number from 0 on"}},
      {{trace.path(), "--max-ratio", "abc"}, {"--max-ratio: 'abc' is no number from 0 on"}},
      {{trace.path(), "--max-ratio", "nan"}, {"--max-ratio: 'nan' is no number from 0 on"}},
      {{trace.path(), "--max-ratio", "1e999"}, {"'1e999' is no number from 0 on"}},
      {{trace.path(), "--nonsense"}, {"no option '--nonsense'"}},
      {{trace.path(), "--max_ratio", "2"}, {"'--max_ratio'; did you mean --max-ratio?"}},
      {{trace.path(), "--resource", "polo"}, {"no resource 'polo'; did you mean pool?"}},
      {{trace.path(), "--resource", "gold"}, {"no resource 'gold'", "pool, hip, async"}},
      {{trace.path(), "--resource", "hip", "--limit", "1GiB"}, {"--limit"}},
      {{trace.path(), "--device", "99"}, {"--device: device 99 does not exist"}},
      {{trace.path(), "--device", "-1"}, {"--device: '-1' is no device"}},
      {{trace.path(), "--device", "one"}, {"--device: 'one' is no device"}},
      {{"--resource", "hip", "/nonexistent/trace.csv"}, {"cannot open it"}, 1},
      {{"--resource", "hip", trace.path(), "--json", "/nonexistent/x.json"},
       {"cannot create '/nonexistent/x.json'"},
       1},
      {{"--resource", "hip", trace.path(), "--timeline", "/nonexistent/x.svg"},
       {"cannot create '/nonexistent/x.svg'"},
       1},
  };
  for (const misuse& each : cases) {
    CAPTURE(each.arguments.back());
    const outcome ended = replay_program(each.arguments);
    check_fails(ended, each.status, each.words);
    CHECK(ended.err.size() < 200);
    CHECK(ended.out.empty());
  }
}

TEST_CASE("hipvmm-replay: a terminal to read from is refused") {
  check_fails(replay_program({}, surroundings{.terminal_input = true}), 2, {"nothing to read"});
}

bool has_gnuplot() {
  if (std::system("gnuplot --version >/dev/null 2>&1") == 0) return true;
  MESSAGE("skipped: gnuplot is not installed");
  return false;
}

/// Starts the trace's name with text that a shell, gnuplot, a terminal and XML take for commands.
const std::string hostile = "`touch pwned`$(touch pwned)'\"\\ <&>\x1b]0;owned\x07\x1b[2J\n\x9b.csv";

/// Whether text can be written to a terminal: no control character but ends of lines and tabs.
bool is_harmless(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char each) {
    return each == '\n' || each == '\t' || (each >= ' ' && each <= '~');
  });
}

TEST_CASE("hipvmm-replay: a trace's name runs no command and changes no terminal") {
  const temporary_file trace{small_trace, hostile};
  const std::filesystem::path pwned = std::filesystem::current_path() / "pwned";
  const outcome text = replay_program({trace.path(), "--resource", "hip"});
  CHECK(text.status == 0);
  CHECK(is_harmless(text.out));
  CHECK(text.out.find("\\x1b]0;owned\\x07\\x1b[2J\\x0a\\x9b.csv: 4 events") != std::string::npos);
  const outcome json = replay_program({trace.path(), "--resource", "hip", "--json", "-"});
  CHECK(is_harmless(json.out));
  CHECK(nlohmann::json::parse(json.out)["trace"].get<std::string>().find("\x1b]0;") !=
        std::string::npos);
  const outcome failed = replay_program({trace.path() + "none", "--resource", "hip"});
  CHECK(failed.status == 1);
  CHECK(is_harmless(failed.err));
  if (!has_gnuplot()) return;
  const outcome picture = replay_program({trace.path(), "--resource", "hip", "--timeline", "-"});
  CHECK_MESSAGE(picture.status == 0, picture.err);
  CHECK(is_harmless(picture.out));
  CHECK(picture.out.find("`touch pwned`$(touch pwned)'\"\\ &lt;&amp;&gt;\\x1b]0;") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(pwned));
}

TEST_CASE("hipvmm-replay: values of a trace change no terminal") {
  for (const char* const row : {"0,0,alloc\x1b[2Jate,a,16,1\n", "0,\x1b[2J,allocate,a,16,1\n",
                                "0,0,allocate,\x9b"
                                "31m,16,1\n",
                                "0,0,allocate,a,1\r6,1\n", "0,0,allocate,a,16,\x07\n"}) {
    const temporary_file trace{trace_header + row, ".csv"};
    const outcome ended = replay_program({trace.path(), "--resource", "hip"});
    check_fails(ended, 1, {"row 2", "\\x"});
    CHECK(is_harmless(ended.err));
  }
  const outcome misused = replay_program({"--resource", "\x1b[2J", "-"});
  CHECK(misused.status == 2);
  CHECK(is_harmless(misused.err));
}

TEST_CASE("hipvmm-replay: --pool sets options of the resource, and refuses others") {
  const temporary_file trace{small_trace, ".csv"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), trace.path());
    return replay_program(options);
  };
  for (const std::vector<std::string>& each : std::vector<std::vector<std::string>>{
           {"--pool", "largest_chunk=2MiB", "--pool", "release_threshold=unlimited"},
           {"--resource", "arena", "--pool", "maximum=64MiB"},
           {"--resource", "binning", "--pool", "min_exponent=8", "--pool", "max_exponent=9"},
           {"--resource", "arena", "--limit", "64MiB", "--check", "--epochs", "2"},
           {"--resource", "binning", "--limit", "128MiB", "--check", "--epochs", "2"}}) {
    const outcome ended = with(each);
    const bool lacks = ended.err.find("hipMalloc") != std::string::npos && ended.status == 1;
    CHECK_MESSAGE((ended.status == 0 || lacks), ended.err);
  }
  check_fails(with({"--pool", "nonsense=3"}), 2, {"nonsense", "largest_chunk"});
  check_fails(with({"--pool", "largest_chunk=much"}), 2, {"largest_chunk", "much"});
  check_fails(with({"--pool", "largest_chunk"}), 2, {"largest_chunk"});
  check_fails(with({"--resource", "arena", "--pool", "largest_chunk=2MiB"}), 2, {"largest_chunk"});
  check_fails(with({"--resource", "hip", "--pool", "maximum=2MiB"}), 2,
              {"hipMalloc has no options"});
  check_fails(with({"--limit", "2MiB", "--pool", "maximum=2MiB"}), 2, {"--limit", "maximum"});
  check_fails(with({"--limit", "1KiB"}), 2, {"raise --limit"});
  check_fails(with({"--pool", "maximum=1KiB"}), 2, {"raise maximum (see"});
}

TEST_CASE("hipvmm-replay: a result that cannot be written is a failure") {
  const temporary_file trace{small_trace, ".csv"};
  surroundings given{.closed_output = true};
  check_fails(replay_program({trace.path(), "--resource", "hip"}, given), 1,
              {"standard output is closed"});
  given = {};
  given.output_file = "/dev/full";
  check_fails(replay_program({trace.path(), "--resource", "hip"}, given), 1,
              {"cannot write the result"});
  const auto check_full = [&](const char* option) {
    check_fails(replay_program({trace.path(), "--resource", "hip", option, "/dev/full"}), 1,
                {"cannot write the result to '/dev/full'", "No space left"});
  };
  check_full("--json");
  if (has_gnuplot()) check_full("--timeline");
}

TEST_CASE("hipvmm-replay: no result is written onto the trace, or onto another result") {
  const temporary_file trace{small_trace, ".csv"};
  const temporary_file result{"earlier", ".json"};
  check_fails(replay_program({trace.path(), "--json", trace.path()}), 2,
              {"--json", "is the same file as TRACE"});
  check_fails(replay_program({trace.path(), "--timeline", trace.path()}), 2,
              {"--timeline", "is the same file as TRACE"});
  check_fails(replay_program({trace.path(), "--json", result.path(), "--timeline", result.path()}),
              2, {"--timeline", "is the same file as --json"});
  check_fails(replay_program({trace.path(), "--json", ""}), 2, {"--json", "name a file"});
  check_fails(replay_program({trace.path(), "--json", result.path()},
                             surroundings{.output_file = result.path()}),
              2, {"--json", "is the same file as standard output"});
  CHECK(trace.contents() == small_trace);
  CHECK(result.contents() == "earlier");
}

TEST_CASE("hipvmm-replay: a replay that fails leaves the result of the last one") {
  const temporary_file trace{small_trace + "0,3000004,free,c,1,1\n", ".csv"};
  const temporary_file result{"earlier", ".json"};
  check_fails(replay_program({trace.path(), "--json", result.path()}), 1, {"row 6"});
  CHECK(result.contents() == "earlier");
}

TEST_CASE("hipvmm-replay: --json /dev/stdout is written after the text") {
  const temporary_file trace{small_trace, ".csv"};
  const outcome ended =
      replay_program({trace.path(), "--resource", "hip", "--json", "/dev/stdout"});
  CAPTURE(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(ended.out.starts_with("trace       " + trace.path()));
  const std::size_t json = ended.out.find("\n{") + 1;
  CHECK(nlohmann::json::parse(ended.out.substr(json))["streams"] == 2);
}

TEST_CASE("hipvmm-replay: without gnuplot --timeline says what to install and leaves no file") {
  const temporary_file trace{small_trace, ".csv"};
  const std::string picture = trace.path() + ".svg";
  const surroundings given{.environment = {"PATH=/nonexistent"}};
  check_fails(replay_program({trace.path(), "--resource", "hip", "--timeline", picture}, given), 1,
              {"gnuplot-nox"});
  CHECK_FALSE(std::filesystem::exists(picture));
}

TEST_CASE("hipvmm-replay: a replay that fails leaves the picture of the last one") {
  const temporary_file trace{"Time,Action,Pointer,Size,Stream\nno row\n", ".csv"};
  const temporary_file picture{"<svg>last</svg>", ".svg"};
  const auto draw = [&](const surroundings& given) {
    return replay_program({trace.path(), "--resource", "hip", "--timeline", picture.path()}, given);
  };
  const surroundings given{.environment = {"PATH=/nonexistent"}};
  check_fails(draw(given), 1, {"gnuplot-nox"});
  CHECK(picture.contents() == "<svg>last</svg>");
  if (!has_gnuplot()) return;
  check_fails(draw({}), 1, {"row"});
  CHECK(picture.contents() == "<svg>last</svg>");
}

TEST_CASE("hipvmm-replay: --timeline draws the curves with their names") {
  if (!has_gnuplot()) return;
  const temporary_file trace{small_trace, ".csv"};
  const temporary_file picture{{}, ".svg"};
  const outcome ended =
      replay_program({trace.path(), "--resource", "hip", "--timeline", picture.path()});
  CAPTURE(ended.err);
  REQUIRE(ended.status == 0);
  const std::string svg = picture.contents();
  for (const char* part : {"<svg", "requested by the program", "held from the device",
                           "times as much", "recorded time", "</svg>"}) {
    CAPTURE(part);
    CHECK(svg.find(part) != std::string::npos);
  }
  const outcome piped = replay_program({trace.path(), "--resource", "hip", "--timeline", "-"});
  CHECK(piped.status == 0);
  CHECK(piped.out.find("</svg>") != std::string::npos);
  CHECK(piped.out.find("failures") == std::string::npos);
}

TEST_CASE("hipvmm-replay: --help and --version go to standard output") {
  CHECK(replay_program({"--help"}).out.find("--max-driver-share") != std::string::npos);
  CHECK(replay_program({"--version"}).out.starts_with("hipvmm-replay "));
}

}  // namespace hipvmm::test
