// SPDX-License-Identifier: MIT
#include "region/chunks/shared_chunks.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/capture_mode.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {
namespace {

backing_map::iterator chunk_at(mapped_region& self, std::size_t offset) {
  const auto found = self.backings.find(offset);
  if (found == self.backings.end())
    throw std::invalid_argument{"no chunk of the region begins at offset " +
                                std::to_string(offset)};
  return found;
}

}  // namespace

physical_chunk reference_chunk(region& of, std::size_t offset) {
  return reference_to(chunk_at(of.live(), offset)->second.chunk);
}

void copy_chunks(region& in, const std::vector<std::size_t>& offsets, stream_ref stream) {
  mapped_region& self = in.live();
  self.map_again();
  std::vector<backing_map::iterator> replaced;
  replaced.reserve(offsets.size());
  for (const std::size_t offset : offsets) replaced.push_back(chunk_at(self, offset));
  std::sort(replaced.begin(), replaced.end(),
            [](const auto& a, const auto& b) { return a->first < b->first; });
  // A wait that HIP refuses, as during captures, is refused before anything was submitted.
  {
    const relaxed_captures others;
    stream.synchronize();
  }
  self.drop_prepared();
  std::vector<physical_chunk> fresh;
  fresh.reserve(replaced.size());
  for (const auto at : replaced) {
    const physical_chunk& old = at->second.chunk;
    fresh.push_back(
        make_with_reclaim([&] { return self.acquire(old.location(), old.bytes(), old.memory()); }));
  }
  self.copy_into(fresh, replaced, stream);
  self.replace_chunks(replaced, fresh);
}

}  // namespace hipvmm::detail
