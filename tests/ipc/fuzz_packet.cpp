// SPDX-License-Identifier: MIT
// For libFuzzer (.ci/run fuzz): the decoder of packets accepts any bytes, and its result is
// written as the same bytes. The first byte is the number of descriptors that came with the others.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "ipc/packet.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  const std::size_t descriptors = data[0] % 20;
  // A copy of its own, so that a read behind its end is found.
  const std::vector<unsigned char> packet(data + 1, data + bytes);
  const hipvmm::detail::decoded_packet read =
      hipvmm::detail::decode(packet.data(), packet.size(), descriptors);
  if (read.content.has_value() == (read.wrong != nullptr)) std::abort();
  if (hipvmm::detail::promised_descriptors(packet.data(), packet.size()) >
      hipvmm::detail::max_packet_descriptors)
    std::abort();
  if (read.content && hipvmm::detail::encode(*read.content, descriptors) != packet) std::abort();
  return 0;
}
