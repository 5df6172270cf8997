// SPDX-License-Identifier: MIT
// A program with two bugs, for the host provider to find: `debug_on_host race` copies without
// waiting for the stream that writes, `debug_on_host leak` keeps memory when a copy fails. Without
// an argument it has neither.
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <hipvmm/vector.hpp>
#include <stdexcept>
#include <vector>

namespace {

std::vector<int> produce_and_fetch(bool with_bug) {
  const hipvmm::stream producer;
  const hipvmm::stream fetcher;
  hipvmm::growable_device_vector<int> table;
  table.resize(1'000, 7, producer);
  if (!with_bug) {
    hipvmm::event produced;
    produced.record(producer);
    fetcher.wait(produced);
  }
  return table.copy_to_host(fetcher);
}

/// A table in device memory, by HIP's own calls; the caller frees it.
void* upload(const std::vector<int>& table, bool with_bug) {
  const std::size_t bytes = table.size() * sizeof(int);
  void* memory = nullptr;
  if (hipMalloc(&memory, bytes) != hipSuccess) throw std::bad_alloc{};
  if (hipMemcpy(memory, table.data(), bytes, hipMemcpyHostToDevice) != hipSuccess) {
    if (!with_bug) static_cast<void>(hipFree(memory));
    throw std::runtime_error{"the table could not be copied"};
  }
  return memory;
}

void run(const char* bug) {
  const std::vector<int> table = produce_and_fetch(std::strcmp(bug, "race") == 0);
  try {
    if (hipFree(upload(table, std::strcmp(bug, "leak") == 0)) != hipSuccess)
      throw std::runtime_error{"hipFree failed"};
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: going on without it\n", error.what());
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "debug_on_host: %s\n", error.what());
    return 1;
  }
}
