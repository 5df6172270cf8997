// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "halves.hpp"
#include "sleep_scenarios.hpp"

namespace bench {

/// A region of equal chunks with a tag.
struct tagged_region {
  tagged_region(const settings& chosen, const sleep_shape& shape)
      : stream{chosen.device}, memory{chosen.device, shape.bytes, [this] {
                                        hipvmm::region_options options;
                                        options.tag = tag;
                                        return options;
                                      }()} {
    for (std::size_t at = 0; at < shape.bytes; at += shape.chunk) memory.commit(at, shape.chunk);
    hipvmm::fill_async(stream, memory.base(), 1, shape.bytes);
    stream.synchronize();
  }

  hipvmm::memory_tag tag{"bench"};
  hipvmm::stream stream;
  hipvmm::region memory;
};

/// A pool with a tag, and blocks of the size of those chunks.
struct tagged_pool {
  tagged_pool(const settings& chosen, const sleep_shape& shape)
      : stream{chosen.device}, size{shape.chunk}, memory{chosen.device, [&] {
                                                           hipvmm::mr::pool_options options;
                                                           options.maximum_bytes = shape.bytes;
                                                           options.initial_bytes = shape.bytes;
                                                           options.largest_chunk = shape.chunk;
                                                           options.tag = tag;
                                                           return options;
                                                         }()} {
    for (std::size_t at = 0; at < shape.bytes; at += size)
      blocks.push_back(memory.allocate(stream, size));
    for (void* const each : blocks) hipvmm::fill_async(stream, each, 1, size);
    stream.synchronize();
  }
  ~tagged_pool() {
    for (void* const each : blocks) memory.deallocate(stream, each, size);
  }
  tagged_pool(const tagged_pool&) = delete;
  tagged_pool& operator=(const tagged_pool&) = delete;

  hipvmm::memory_tag tag{"bench"};
  hipvmm::stream stream;
  std::size_t size;
  hipvmm::mr::vmm_pool_resource memory;
  std::vector<void*> blocks;
};

/// A method whose memory sleeps while others are measured. It is made when it first runs, and ends
/// with the method.
template <typename Subject, typename Wake, typename Sleep>
method cycling(const char* called, const settings& chosen, const sleep_shape& shape, Wake wake,
               Sleep sleep) {
  auto subject = std::make_shared<std::unique_ptr<Subject>>();
  return {called, chosen.runs, chosen.repeats, [=, &chosen, &shape](memory_probe*) {
            if (!*subject) {
              *subject = std::make_unique<Subject>(chosen, shape);
              sleep(**subject);
            }
            return cycle([&] { wake(**subject); }, [&] { sleep(**subject); });
          }};
}

}  // namespace bench
