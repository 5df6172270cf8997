// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include "support/process/program.hpp"
#include "support/random_seed.hpp"
#include "support/test.hpp"
#include "tool/replay/replay_subject.hpp"
#include "tool/replay/replay_trace.hpp"

namespace hipvmm::test {

inline const std::string trace_header = "Thread,Time,Action,Pointer,Size,Stream\n";

/// The trace that a file with these rows below the usual header holds.
inline tool::trace trace_of(const std::string& rows) {
  const temporary_file file{trace_header + rows, ".csv"};
  return tool::read_trace(file.path());
}

/// The subject on device 0, or null, and said so, if the device lacks a feature that it needs.
inline std::unique_ptr<tool::replay_subject> subject_named(std::string_view name) {
  try {
    return tool::make_subject(name, {device_ref{0}, std::nullopt});
  } catch (const unsupported& reason) {
    MESSAGE("skipped: " << std::string{reason.what()});
    return nullptr;
  }
}

/// Rows of a program that allocates and frees at random and leaves some blocks alive.
inline std::string random_rows(std::mt19937& generator, std::size_t events, std::size_t streams) {
  constexpr std::size_t most_alive = 60;
  struct block {
    std::size_t address;
    std::size_t bytes;
    std::size_t stream;
  };
  std::vector<block> alive;
  std::string rows;
  const auto write = [&rows](std::size_t time, const char* action, const block& each) {
    rows += "7," + std::to_string(time) + ',' + action + ',' + std::to_string(each.address) + ',' +
            std::to_string(each.bytes) + ',' + std::to_string(each.stream) + '\n';
  };
  for (std::size_t i = 0; i < events; ++i) {
    if (alive.size() < 2 || (alive.size() < most_alive && below(generator, 5) < 3)) {
      const std::size_t most = below(generator, 4) == 0 ? 700'000 : 5000;
      // Decimal digits are hexadecimal ones too: all that matters is that addresses differ.
      alive.push_back({i + 1, 1 + below(generator, most), below(generator, streams)});
      write(i, "allocate", alive.back());
    } else {
      std::swap(alive[below(generator, alive.size())], alive.back());
      // Some are freed in another stream than they were allocated in.
      if (below(generator, 8) == 0) alive.back().stream = below(generator, streams);
      write(i, "free", alive.back());
      alive.pop_back();
    }
  }
  return rows;
}

/// A subject around any resource, which tells nothing of the driver.
class plain_subject final : public tool::replay_subject {
 public:
  explicit plain_subject(mr::memory_resource& resource) : resource_{resource} {}

  mr::memory_resource& resource() noexcept override { return resource_; }
  void begin() override { ++begun_; }
  void begin_epoch() override { ++epochs_begun_; }
  void look() override { ++looks_; }
  void forget(stream_ref) override { ++forgotten_; }
  [[nodiscard]] std::size_t peak_physical() const override { return 3 * looks_; }
  [[nodiscard]] tool::memory_held held() const override { return {looks_, 2 * looks_}; }
  [[nodiscard]] std::vector<driver_calls> calls() const override {
    return {{"first", 2, 0.5}, {"second", 3, 0.25}};
  }

  [[nodiscard]] std::size_t begun() const { return begun_; }
  [[nodiscard]] std::size_t epochs_begun() const { return epochs_begun_; }
  [[nodiscard]] std::size_t looks() const { return looks_; }
  [[nodiscard]] std::size_t forgotten() const { return forgotten_; }

 private:
  mr::memory_resource& resource_;
  std::size_t begun_ = 0;
  std::size_t epochs_begun_ = 0;
  std::size_t looks_ = 0;
  std::size_t forgotten_ = 0;
};

/// A resource that leaves to a test which addresses it gives.
class scripted_resource : public mr::memory_resource {
 protected:
  virtual void* give(stream_ref stream, std::size_t bytes) = 0;
  virtual void take(stream_ref, void*, std::size_t) noexcept {}

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t) final {
    return give(stream, bytes);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t) noexcept final {
    take(stream, pointer, bytes);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t) final {
    return give(stream_ref::legacy_default(), bytes);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept final {
    take(stream_ref::legacy_default(), pointer, bytes);
  }
};

}  // namespace hipvmm::test
