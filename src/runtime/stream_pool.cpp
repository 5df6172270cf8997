// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/stream_pool.hpp>

#include <stdexcept>
#include <string>

namespace hipvmm {

stream_pool::stream_pool(device_ref device, std::size_t size, stream_kind kind) {
  if (size == 0 || size > streams_.max_size())
    throw std::invalid_argument{"stream_pool: size is " + std::to_string(size) +
                                "; ask for at least one stream, and for at most " +
                                std::to_string(streams_.max_size())};
  streams_.reserve(size);
  for (std::size_t i = 0; i < size; ++i) streams_.emplace_back(device, kind);
}

stream_ref stream_pool::get_stream() const {
  return get_stream(next_.fetch_add(1, std::memory_order_relaxed));
}

stream_ref stream_pool::get_stream(std::size_t index) const {
  return streams_[index % streams_.size()].ref();
}

}  // namespace hipvmm
