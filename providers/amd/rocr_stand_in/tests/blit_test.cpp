// SPDX-License-Identifier: MIT
// The runtime's kernels by the names of their arguments, in the layouts of several releases.
#include <doctest/doctest.h>

#include <csignal>

#include <cstring>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

TEST_CASE("blit: a fill repeats its pattern, as clr 6 passes it") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    launcher by(on, on.gpus[0], {fill_kernel()});
    char* const data = on.allocate(on.gpus[0], 4096);
    auto* const pattern = reinterpret_cast<std::uint32_t*>(on.allocate(on.cpu, 16));
    pattern[0] = 0x01020304;
    pattern[1] = 0x05060708;
    wait(by.launch("__amd_rocclr_fillBufferAligned", {{"buf", address_of(data + 8)},
                                                      {"pattern", address_of(pattern)},
                                                      {"pattern_size", 2},
                                                      {"alignment", 4},
                                                      {"end_ptr", address_of(data + 40)}}));
    EXPECT(data[7] == 0);
    EXPECT(std::memcmp(data + 8, pattern, 8) == 0);
    EXPECT(std::memcmp(data + 32, pattern, 8) == 0);
    EXPECT(data[40] == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("blit: a fill in the layout of clr 5 counts patterns of the width its pointer has") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    launcher by(on, on.gpus[0], {fill_kernel_of_clr_5()});
    auto* const data = reinterpret_cast<std::uint32_t*>(on.allocate(on.gpus[0], 4096));
    auto* const pattern = reinterpret_cast<std::uint32_t*>(on.allocate(on.cpu, 16));
    pattern[0] = 77;
    wait(by.launch("__amd_rocclr_fillBufferAligned", {{"bufUInt", address_of(data)},
                                                      {"pattern", address_of(pattern)},
                                                      {"patternSize", 1},
                                                      {"offset", 2},
                                                      {"size", 3}}));
    EXPECT(data[1] == 0);
    EXPECT(data[2] == 77);
    EXPECT(data[4] == 77);
    EXPECT(data[5] == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("blit: a copy in the layouts of clr 6 and clr 5") {
  const kernel_description of_6{"__amd_rocclr_copyBuffer",
                                {{"src", 8, true}, {"dst", 8, true}, {"size", 8}, {"end_ptr", 8}}};
  const kernel_description of_5{"__amd_rocclr_copyBuffer",
                                {{"srcI", 8, true},
                                 {"dstI", 8, true},
                                 {"srcOrigin", 8},
                                 {"dstOrigin", 8},
                                 {"size", 8},
                                 {"remain", 4}}};
  for (const auto& kernel : {of_6, of_5}) {
    const outcome got = in_child({}, [&] {
      hsa_system on;
      launcher by(on, on.gpus[0], {kernel});
      char* const from = on.allocate(on.gpus[0], 64);
      char* const to = on.allocate(on.gpus[0], 64);
      for (int i = 0; i < 64; ++i) from[i] = static_cast<char>(i + 1);
      if (kernel.arguments[0].name == "src") {
        wait(by.launch(kernel.name,
                       {{"src", address_of(from + 1)}, {"dst", address_of(to + 2)}, {"size", 11}}));
      } else {
        // 2 words and 3 bytes
        wait(by.launch(kernel.name, {{"srcI", address_of(from)},
                                     {"dstI", address_of(to)},
                                     {"srcOrigin", 1},
                                     {"dstOrigin", 2},
                                     {"size", 3},
                                     {"remain", 3}}));
      }
      EXPECT(to[1] == 0);
      EXPECT(std::memcmp(to + 2, from + 1, 11) == 0);
      EXPECT(to[13] == 0);
    });
    CHECK_MESSAGE(got.finished, got.errors);
  }
}

TEST_CASE("blit: rows are copied in units of 16 bytes where the size says so, else of 4") {
  const kernel_description rows{
      "__amd_rocclr_copyBufferRectAligned",
      {{"src", 8, true}, {"dst", 8, true}, {"srcRect", 32}, {"dstRect", 32}, {"size", 32}}};
  for (const std::uint64_t unit : {4u, 16u}) {
    const outcome got = in_child({}, [&] {
      hsa_system on;
      launcher by(on, on.gpus[0], {rows});
      char* const from = on.allocate(on.gpus[0], 4096);
      char* const to = on.allocate(on.gpus[0], 4096);
      for (int i = 0; i < 4096; ++i) from[i] = static_cast<char>(i % 101 + 1);
      // 2 rows of 3 units, pitches of 5 and 4 units, the destination begins at unit 1
      wait(by.launch(
          rows.name, {{"src", address_of(from)}, {"dst", address_of(to)}},
          {{"srcRect", {5, 0, 0, 0}}, {"dstRect", {4, 0, 1, 0}}, {"size", {3, 2, 1, unit}}}));
      EXPECT(std::memcmp(to + unit, from, 3 * unit) == 0);
      EXPECT(std::memcmp(to + 5 * unit, from + 5 * unit, 3 * unit) == 0);
      EXPECT(to[4 * unit] == 0);
      EXPECT(to[8 * unit] == 0);
    });
    CHECK_MESSAGE(got.finished, got.errors);
  }
}

TEST_CASE("blit: a kernel that waits for a value goes on when the host writes it") {
  const kernel_description waits{
      "__amd_rocclr_streamOpsWait",
      {{"ptrInt", 8, true}, {"ptrUlong", 8, true}, {"value", 8}, {"flags", 8}, {"mask", 8}}};
  const kernel_description writes{"__amd_rocclr_streamOpsWrite",
                                  {{"ptrInt", 8, true}, {"ptrUlong", 8, true}, {"value", 8}}};
  const outcome got = in_child({}, [&] {
    hsa_system on;
    launcher by(on, on.gpus[0], {waits, writes});
    auto* const value = reinterpret_cast<volatile std::uint32_t*>(on.allocate(on.cpu, 8));
    by.launch(waits.name, {{"ptrInt", address_of(const_cast<std::uint32_t*>(value))},
                           {"value", 5},
                           {"flags", 0},
                           {"mask", 0xff}});
    const hsa_signal_t done =
        by.launch(writes.name, {{"ptrUlong", address_of(const_cast<std::uint32_t*>(value))},
                                {"value", std::uint64_t{1} << 40}});
    EXPECT(hsa_signal_load_scacquire(done) == 1);
    *value = 0x105;
    wait(done);
    EXPECT(value[0] == 0);
    EXPECT(value[1] == 256);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("blit: a kernel of the program completes and is named once, or stops the program") {
  const auto launch_twice = [] {
    hsa_system on;
    launcher by(on, on.gpus[0], {program_kernel()});
    char* const data = on.allocate(on.gpus[0], 64);
    wait(by.launch("a_kernel_of_a_program", {{"data", address_of(data)}}));
    wait(by.launch("a_kernel_of_a_program", {{"data", address_of(data)}}));
  };
  const outcome completed = in_child({}, launch_twice);
  CHECK(completed.finished);
  const std::string named = "kernel a_kernel_of_a_program is not run";
  const std::size_t first = completed.errors.find(named);
  CHECK(first != std::string::npos);
  CHECK(completed.errors.find(named, first + 1) == std::string::npos);
  const outcome stopped = in_child({"KERNELS=stop"}, launch_twice);
  CHECK(stopped.signal == SIGABRT);
  CHECK(stopped.errors.find("kernel a_kernel_of_a_program cannot be run") != std::string::npos);
}

TEST_CASE("code object: what is none is refused") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    std::vector<char> code = build_code_object({fill_kernel()});
    const auto load = [&](std::size_t bytes) {
      hsa_code_object_reader_t reader{};
      hsa_executable_t executable{};
      hsa_code_object_reader_create_from_memory(code.data(), bytes, &reader);
      hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                &executable);
      const auto status =
          hsa_executable_load_agent_code_object(executable, on.gpus[0], reader, nullptr, nullptr);
      hsa_executable_destroy(executable);
      hsa_code_object_reader_destroy(reader);
      return status;
    };
    EXPECT(load(code.size()) == HSA_STATUS_SUCCESS);
    for (std::size_t bytes = 1; bytes < code.size(); bytes += 7) {
      const auto status = load(bytes);
      EXPECT(status == HSA_STATUS_SUCCESS || status == HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
    }
    code[0] = 'x';
    EXPECT(load(code.size()) == HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace
