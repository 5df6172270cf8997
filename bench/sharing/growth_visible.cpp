// SPDX-License-Identifier: MIT
// How long after this process begins to add memory does another process read it?
//
// Above three times HIP's own calls (create, export, import, map, rights, and a socket), a program
// that shares growing memory would write them itself.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "raw_memory.hpp"
#include "sharing_scenarios.hpp"

namespace bench {
namespace {

/// Times each step from the call that grows until all other processes have read the new bytes.
/// `grow(bytes)` makes the bytes usable here, `announce(bytes, stream)` there once `stream` has
/// written them.
std::vector<double> time_steps(
    const std::vector<std::size_t>& sizes, const importers& others, hipvmm::device_ref device,
    const std::function<void*(std::size_t bytes)>& grow,
    const std::function<void(std::size_t bytes, hipvmm::stream_ref)>& announce) {
  const hipvmm::stream stream{device};
  std::vector<double> seconds;
  for (const std::size_t bytes : sizes) {
    const auto word = static_cast<unsigned char>(seconds.size() + 1);
    const stopwatch watch;
    void* const base = grow(bytes);
    hipvmm::fill_async(stream, static_cast<char*>(base) + bytes - 16, word, 16);
    announce(bytes, stream);
    for (const auto& other : others) other->ask_for_last_word_of(bytes);
    std::vector<unsigned> seen;
    for (const auto& other : others) seen.push_back(other->last_word());
    seconds.push_back(watch.seconds());
    for (const unsigned each : seen)
      if (each != word * 0x01010101U)
        throw std::runtime_error{"another process read " + std::to_string(each) +
                                 " instead of bytes of " + std::to_string(word)};
  }
  return seconds;
}

/// Releases the other processes' memory, also when a step fails.
struct session {
  const importers& others;
  session(const importers& importing, importer::way how, hipvmm::device_ref device,
          std::size_t max_bytes, const std::string& path = "-")
      : others{importing} {
    for (const auto& other : others) other->begin(how, device, max_bytes, path);
  }
  ~session() {
    for (const auto& other : others) {
      try {
        other->end();
      } catch (const std::exception&) {
        // The step before has reported it.
      }
    }
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
};

std::vector<double> by_raw_calls(const std::vector<std::size_t>& sizes, const importers& others,
                                 hipvmm::device_ref device) {
  // In each method the importer releases the memory first, the owner last.
  raw_memory memory{device, sizes.back(), sizes.size()};
  const session running{others, importer::way::raw_calls, device, sizes.back()};
  std::size_t added = 0;
  return time_steps(
      sizes, others, device,
      [&](std::size_t bytes) {
        added = bytes - memory.bytes();
        memory.add(added);
        return memory.at(0);
      },
      [&](std::size_t, hipvmm::stream_ref stream) {
        stream.synchronize();
        const int descriptor = memory.export_last();
        for (const auto& other : others) other->send_raw(descriptor, added);
        ::close(descriptor);
      });
}

std::vector<double> by_adopting(const std::vector<std::size_t>& sizes, const importers& others,
                                hipvmm::device_ref device) {
  hipvmm::region_options options;
  options.shareable = hipvmm::handle_type::posix_fd;
  hipvmm::region memory{device, sizes.back(), options};
  const session running{others, importer::way::adopt, device, sizes.back()};
  std::uint64_t last = 0;
  return time_steps(
      sizes, others, device,
      [&](std::size_t bytes) {
        memory.commit(0, bytes);
        return memory.base();
      },
      [&](std::size_t, hipvmm::stream_ref stream) {
        stream.synchronize();
        const std::vector<hipvmm::exported_chunk> chunks = memory.export_chunks(last);
        if (!chunks.empty()) last = chunks.back().serial;
        for (const auto& other : others) other->channel().send(chunks);
      });
}

std::vector<double> by_publication(const std::vector<std::size_t>& sizes, const importers& others,
                                   hipvmm::device_ref device) {
  hipvmm::region_options options;
  options.shareable = hipvmm::handle_type::posix_fd;
  hipvmm::region memory{device, sizes.back(), options};
  const std::string path =
      std::filesystem::temp_directory_path() / ("sharing_bench-" + std::to_string(::getpid()));
  hipvmm::publication published{path, device, sizes.back()};
  const session running{others, importer::way::attach, device, sizes.back(), path};
  return time_steps(
      sizes, others, device,
      [&](std::size_t bytes) {
        memory.commit(0, bytes);
        return memory.base();
      },
      [&](std::size_t bytes, hipvmm::stream_ref stream) {
        published.announce(memory, bytes, stream);
      });
}

}  // namespace

std::vector<measurement> measure_growth_visible(const settings& chosen, const importers& others) {
  const std::vector<std::size_t> sizes = equal_steps(chosen.step_bytes, chosen.steps_bytes);
  using ways = std::vector<double> (*)(const std::vector<std::size_t>&, const importers&,
                                       hipvmm::device_ref);
  std::vector<method> methods;
  for (const auto& [called, way] : {std::pair<const char*, ways>{name::raw_calls, by_raw_calls},
                                    {name::adopt, by_adopting},
                                    {name::publication, by_publication}}) {
    methods.push_back({called, chosen.runs, chosen.repeats, [&, measured = way](memory_probe*) {
                         return measured(sizes, others, chosen.device);
                       }});
  }
  measurement row;
  row.scenario = scenario::growth_visible;
  row.steps = sizes.size();
  row.bytes = sizes.back();
  return measure(row, methods, chosen);
}

}  // namespace bench
