// SPDX-License-Identifier: MIT
// Measures the cost of registering the chunks of growing memory with a communication library.
//
// A registrar may take no longer than 1.1 times growth and the library's own calls: above, a
// program would do better to call the library itself.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "bench/sharing/raw_memory.hpp"
#include "exchange_scenarios.hpp"

namespace bench {
namespace {

using bytes_vector = hipvmm::growable_device_vector<std::uint8_t>;

constexpr const char* hip_alone = "HIP's own calls";
std::string raw_calls(const std::string& library) { return library + " by its own calls"; }
std::string with_hip(const std::string& library) { return library + "'s and HIP's own calls"; }
std::string by_registrar(const std::string& library) { return library + " registrar"; }
std::string by_range(const std::string& library) { return library + " register_range()"; }

/// How a vector's chunks are registered.
struct way {
  std::string name;
  registering* own_calls = nullptr;
  std::shared_ptr<hipvmm::memory_registrar> registrar = {};
  registering* range = nullptr;  ///< the registrar's library, to register all chunks as one
  std::string unavailable = {};
  bool is_hip = false;  ///< chunks of HIP's own calls instead of a vector
};

hipvmm::growth_options growth_of(const registration_shape& shape, const way& how) {
  hipvmm::growth_options result;
  result.max_bytes = shape.bytes * static_cast<std::size_t>(shape.chunks);
  result.granule_bytes = shape.bytes;
  result.step_limit = 0;
  // NCCL and UCX want it; without a registrar it is the same memory.
  result.chunks.shareable = hipvmm::handle_type::posix_fd;
  result.chunks.registrar = how.registrar;
  return result;
}

/// A vector that is registered in one of the ways.
class chunks {
 public:
  chunks(hipvmm::device_ref device, const registration_shape& shape, const way& how)
      : shape_{shape}, how_{how}, vector_{device, growth_of(shape, how)} {
    handles_.reserve(static_cast<std::size_t>(shape.chunks));
  }

  void grow() {
    const std::size_t before = vector_.size();
    vector_.resize_uninitialized(before + shape_.bytes);
    if (how_.own_calls != nullptr)
      handles_.push_back(how_.own_calls->add(vector_.data() + before, shape_.bytes));
  }
  void grow_to_all() {
    for (int i = 0; i < shape_.chunks; ++i) grow();
    if (how_.range != nullptr) how_.range->register_range(vector_.data(), vector_.size());
  }
  void fill(hipvmm::stream_ref stream) {
    hipvmm::fill_async(stream, vector_.data(), 1, vector_.size());
    stream.synchronize();
  }
  /// At once: no work uses the memory.
  void release(hipvmm::stream_ref stream) {
    for (std::size_t i = 0; i < handles_.size(); ++i)
      how_.own_calls->remove(handles_[i], vector_.data() + i * shape_.bytes);
    handles_.clear();
    vector_.clear();
    vector_.shrink_to_fit(stream);
    hipvmm::drain_retired_memory();
  }
  [[nodiscard]] std::uint8_t* data() { return vector_.data(); }

 private:
  const registration_shape& shape_;
  const way& how_;
  bytes_vector vector_;
  std::vector<void*> handles_;
};

/// One rank through all methods.
class registration_methods {
 public:
  registration_methods(const settings& chosen, const registration_shape& shape,
                       const exchange_rank& rank)
      : chosen_{chosen}, shape_{shape}, rank_{rank}, stream_{chosen.device} {
    ways_.push_back({name::not_registered});
    for (const std::shared_ptr<registering>& each : rank.libraries) add_ways(*each);
  }

  std::vector<measurement> measure_all() {
    std::vector<measurement> rows;
    const auto add = [&](const char* scenario, const std::vector<way>& ways, auto work) {
      measurement row;
      row.scenario = scenario;
      row.steps = static_cast<std::size_t>(shape_.chunks);
      row.bytes = shape_.bytes * row.steps;
      std::vector<method> methods;
      for (const way& how : ways)
        methods.push_back({how.name, chosen_.runs, chosen_.repeats,
                           [this, &how, work](memory_probe*) { return slowest(work(how)); },
                           how.unavailable});
      for (measurement& each : measure(row, methods, chosen_)) rows.push_back(std::move(each));
    };
    std::vector<way> all = ways_;
    for (const way& each : ways_) {
      if (each.registrar != nullptr || !each.unavailable.empty()) continue;
      all.push_back(each);
      all.back().is_hip = true;
      all.back().name = each.own_calls == nullptr ? hip_alone : with_hip(each.own_calls->library());
    }
    add(scenario::registered_growth, all,
        [this](const way& how) { return how.is_hip ? growth_by_hip(how) : growth(how); });
    add(scenario::registered_release, ways_, [this](const way& how) { return release(how); });
    if (ranges_.empty()) return rows;
    const std::size_t first = rows.size();
    add(scenario::first_transfer, messages_, [this](const way& how) { return by_chunk(how, 0); });
    add(scenario::later_transfer, messages_, [this](const way& how) { return by_chunk(how, 1); });
    add(scenario::range_transfer, ranges_, [this](const way& how) { return as_one(how); });
    for (std::size_t i = first; i < rows.size(); ++i)
      if (!rows[i].seconds.empty())
        rows[i].gigabytes_per_second =
            static_cast<double>(rows[i].bytes) / summarize(rows[i].seconds).median / 1e9;
    return rows;
  }

 private:
  /// Runs `work` in all ranks. Throws in all of them if it throws in one.
  template <typename Work>
  void together(Work work) const {
    std::string why;
    try {
      work();
      // Before a rank has work that waits for the others: to unmap may wait for the device.
      hipvmm::drain_retired_memory();
    } catch (const std::exception& error) {
      why = error.what();
      if (why.empty()) why = "it failed";
    }
    if (!rank_.agree(why.empty()))
      throw std::runtime_error{why.empty() ? "another rank failed" : why};
  }
  [[nodiscard]] std::vector<double> slowest(const std::vector<double>& mine) const {
    const auto size = static_cast<std::size_t>(rank_.ranks.size());
    std::vector<double> all(mine.size() * size);
    rank_.ranks.all_gather(mine.data(), all.data(), mine.size() * sizeof(double));
    std::vector<double> result = mine;
    for (std::size_t i = 0; i < all.size(); ++i)
      result[i % mine.size()] = std::max(result[i % mine.size()], all[i]);
    return result;
  }

  /// The ways of a library, or why it has none.
  void add_ways(registering& library) {
    way own{raw_calls(library.library()), &library};
    way registrar{by_registrar(library.library())};
    try {
      together([&] {
        registrar.registrar = library.start(chosen_.device, growth_of(shape_, ways_.front()));
      });
      together([&] {
        registration_shape one = shape_;
        one.chunks = 1;
        chunks tried{chosen_.device, one, own};
        tried.grow();
        tried.release(stream_);
      });
    } catch (const std::exception& error) {
      own.unavailable = registrar.unavailable = error.what();
    }
    if (library.serves_messages()) {
      if (messages_.empty()) ranges_.push_back(ways_.front()), messages_.push_back(ways_.front());
      messages_.push_back(registrar);
      ranges_.push_back(registrar);
      ranges_.push_back(registrar);
      ranges_.back().name = by_range(library.library());
      ranges_.back().range = &library;
    }
    const bool has_registrar = registrar.registrar != nullptr || !registrar.unavailable.empty();
    ways_.push_back(std::move(own));
    if (has_registrar) ways_.push_back(std::move(registrar));
  }

  std::vector<double> growth(const way& how) const {
    std::vector<double> seconds;
    together([&] { chosen_.device.synchronize(); });
    together([&] {
      chunks memory{chosen_.device, shape_, how};
      for (int i = 0; i < shape_.chunks; ++i) {
        const stopwatch watch;
        memory.grow();
        seconds.push_back(watch.seconds());
      }
      memory.release(stream_);
    });
    return seconds;
  }
  std::vector<double> growth_by_hip(const way& how) const {
    std::vector<double> seconds;
    const auto count = static_cast<std::size_t>(shape_.chunks);
    together([&] { chosen_.device.synchronize(); });
    together([&] {
      raw_memory memory{chosen_.device, shape_.bytes * count, count};
      std::vector<void*> handles(count);
      for (std::size_t i = 0; i < count; ++i) {
        const stopwatch watch;
        memory.add(shape_.bytes);
        if (how.own_calls != nullptr)
          handles[i] = how.own_calls->add(memory.at(i * shape_.bytes), shape_.bytes);
        seconds.push_back(watch.seconds());
      }
      for (std::size_t i = 0; how.own_calls != nullptr && i < count; ++i)
        how.own_calls->remove(handles[i], memory.at(i * shape_.bytes));
    });
    return seconds;
  }
  std::vector<double> release(const way& how) const {
    std::optional<chunks> memory;
    together([&] {
      memory.emplace(chosen_.device, shape_, how).grow_to_all();
      chosen_.device.synchronize();
    });
    double seconds = 0;
    together([&] {
      const stopwatch watch;
      memory->release(stream_);
      seconds = watch.seconds();
      memory.reset();
    });
    return {seconds};
  }

  /// Runs `transfer(from, to)` with registered memory at both ends.
  template <typename Transfer>
  void between_ranks(const way& how, Transfer transfer) const {
    std::optional<chunks> source;
    std::optional<chunks> target;
    together([&] {
      for (std::optional<chunks>* const each : {&source, &target}) {
        each->emplace(chosen_.device, shape_, how).grow_to_all();
        (*each)->fill(stream_);
      }
    });
    together([&] { transfer(source->data(), target->data()); });
    // No rank uses the memory of another one any more.
    together([&] {
      source.reset();
      target.reset();
    });
  }
  /// Each rank sends to the next one, which is timed until its stream has ended. No lock of the
  /// registrar is needed: the library's threads end no registration meanwhile.
  double seconds_of(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) const {
    const int size = rank_.ranks.size();
    const int own = rank_.ranks.rank();
    const std::vector<hipvmm::outgoing> out{{(own + 1) % size, from, bytes}};
    const std::vector<hipvmm::incoming> in{{(own + size - 1) % size, to, bytes}};
    const stopwatch watch;
    rank_.plain(out, in, stream_);
    stream_.synchronize();
    return watch.seconds();
  }
  /// All chunks one by one, in the last of `earlier` + 1 passes.
  std::vector<double> by_chunk(const way& how, int earlier) const {
    std::vector<double> seconds;
    between_ranks(how, [&](const std::uint8_t* from, std::uint8_t* to) {
      for (int pass = 0; pass <= earlier; ++pass) {
        seconds.clear();
        for (int i = 0; i < shape_.chunks; ++i) {
          const std::size_t offset = static_cast<std::size_t>(i) * shape_.bytes;
          seconds.push_back(seconds_of(from + offset, to + offset, shape_.bytes));
        }
      }
    });
    return seconds;
  }
  std::vector<double> as_one(const way& how) const {
    const std::size_t bytes = shape_.bytes * static_cast<std::size_t>(shape_.chunks);
    double seconds = 0;
    between_ranks(how, [&](const std::uint8_t* from, std::uint8_t* to) {
      static_cast<void>(seconds_of(from, to, bytes));
      seconds = seconds_of(from, to, bytes);
    });
    return {seconds};
  }

  const settings& chosen_;
  const registration_shape& shape_;
  const exchange_rank& rank_;
  hipvmm::stream stream_;
  std::vector<way> ways_;      // none first
  std::vector<way> messages_;  // that send and receive make use of
  std::vector<way> ranges_;
};

/// Of each turn that sampled both, microseconds that a step took longer with `slow`.
std::vector<double> longer(const measurement* slow, const measurement* fast) {
  std::vector<double> result;
  if (slow == nullptr || fast == nullptr) return result;
  for (std::size_t i = 0; i < slow->turns.size(); ++i) {
    const auto same = std::find(fast->turns.begin(), fast->turns.end(), slow->turns[i]);
    if (same == fast->turns.end()) continue;
    const auto at = static_cast<std::size_t>(same - fast->turns.begin());
    result.push_back((slow->seconds[i] - fast->seconds[at]) * 1e6 /
                     static_cast<double>(slow->steps));
  }
  return result;
}

std::vector<double> ratios(const measurement* slow, const measurement* fast) {
  return slow == nullptr || fast == nullptr ? std::vector<double>{} : paired_ratios(*slow, *fast);
}

}  // namespace

std::vector<measurement> measure_registration(const settings& chosen,
                                              const registration_shape& shape,
                                              const exchange_rank& rank) {
  return registration_methods{chosen, shape, rank}.measure_all();
}

std::vector<bar> judge_registration(const std::vector<measurement>& rows,
                                    const exchange_rank& rank) {
  std::vector<bar> result;
  for (const std::shared_ptr<registering>& each : rank.libraries) {
    const std::string library = each->library();
    const auto add = [&](const char* scenario, const std::string& what) {
      const measurement* const plain = row_of(rows, scenario, name::not_registered);
      const measurement* const own = row_of(rows, scenario, raw_calls(library));
      const measurement* const registrar = row_of(rows, scenario, by_registrar(library));
      result.push_back(told(what + " a chunk, " + raw_calls(library), " us", longer(own, plain)));
      if (registrar == nullptr) return;
      result.push_back(
          told(what + " a chunk, " + by_registrar(library), " us", longer(registrar, plain)));
      result.push_back(at_most(
          std::string{scenario} + ": " + by_registrar(library) + " beside the library's own calls",
          1.1, " times", ratios(registrar, own)));
      if (const measurement* const hip = row_of(rows, scenario, with_hip(library)))
        result.push_back(at_most(
            std::string{scenario} + ": " + by_registrar(library) + " beside those and HIP's", 1.1,
            " times", ratios(registrar, hip)));
    };
    add(scenario::registered_growth, "register");
    add(scenario::registered_release, "deregister");
    if (!each->serves_messages()) continue;
    for (const char* const scenario :
         {scenario::first_transfer, scenario::later_transfer, scenario::range_transfer})
      for (const std::string& with : {by_registrar(library), by_range(library)})
        if (row_of(rows, scenario, with) != nullptr)
          result.push_back(told(
              std::string{scenario} + ": " + with + " beside not registered", " times",
              ratios(row_of(rows, scenario, with), row_of(rows, scenario, name::not_registered))));
  }
  return result;
}

}  // namespace bench
