// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hipvmm::detail {

// All numbers are little-endian (docs/reference/ipc.md).
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t packet_header_bytes = 24;
inline constexpr std::size_t max_packet_bytes = 1024;
inline constexpr std::size_t max_packet_text = 1000;
inline constexpr std::size_t max_packet_descriptors = 16;
inline constexpr std::size_t max_published_devices = 16;
inline constexpr std::size_t max_places_in_packet = 30;
inline constexpr std::size_t max_chunks_of_block = 65'536;  // 128 GiB in chunks of 2 MiB

/// In a publication `device` is 0 for publication_header::device, else one more than an index in
/// welcome_packet::other_devices.
struct chunk_record {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t serial;
  std::uint64_t device = 0;

  friend bool operator==(const chunk_record&, const chunk_record&) = default;
};

/// Both sides must have the same: the library's version, HIP's provider and its runtime.
struct build_identity {
  std::array<std::uint16_t, 3> version;
  std::array<char, 16> provider;  ///< padded with zeros
  std::uint64_t runtime;          ///< HIP's version of the runtime

  friend bool operator==(const build_identity&, const build_identity&) = default;
};

struct publication_header {
  std::array<unsigned char, 16> device;  ///< UUID; zeros if the runtime reports none
  std::uint64_t granularity;
  std::uint64_t max_bytes;     ///< of the owner's region: the importer's reservation
  std::uint64_t data_offset;   ///< zero so far: owners announce their start by the state page
  std::uint64_t element_size;  ///< zero for a region
  std::uint64_t element_align;
  std::uint64_t element_tag;

  friend bool operator==(const publication_header&, const publication_header&) = default;
};

// The packets. The comment names the sender, and the descriptors that go with the packet.
struct chunk_packet {  // owner, and fd_channel: one descriptor for each chunk
  std::vector<chunk_record> chunks;
};
struct note_packet {  // fd_channel
  std::string text;
};
struct hello_packet {  // importer, first
  build_identity identity;
};
struct welcome_packet {  // owner, in answer: one descriptor, of the state page
  build_identity identity;
  publication_header shape;
  std::uint64_t epoch;
  std::vector<std::array<unsigned char, 16>> other_devices = {};  ///< as publication_header::device
};
struct refusal_packet {  // owner, in answer to any; then it closes
  std::string text;
};
struct request_packet {  // importer: requests the changes since `epoch`
  std::uint64_t ticket;
  std::uint64_t epoch;
};
struct retired_packet {  // owner, in answer: chunks that are no longer published
  std::vector<chunk_record> chunks;
};
struct present_packet {  // owner, in answer, instead: all that are published; others are not
  std::vector<chunk_record> chunks;
};
struct answer_packet {  // owner, in answer, first
  std::uint64_t ticket;
  std::uint64_t epoch;
};
struct complete_packet {  // owner, in answer, last: all up to `epoch` has been sent
  std::uint64_t ticket;
  std::uint64_t epoch;
};
struct expired_packet {  // owner, unasked; then it closes
  std::string text;
};
struct block_packet {  // fd_channel: the chunks that hold a block follow, in chunk_packets
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t chunks;
};

/// The order is that of the numbers on the wire, which begin with 1.
using packet = std::variant<chunk_packet, note_packet, hello_packet, welcome_packet, refusal_packet,
                            request_packet, retired_packet, complete_packet, block_packet,
                            present_packet, answer_packet, expired_packet>;

/// `wrong` ends a sentence, such as "its magic is wrong".
struct decoded_packet {
  std::optional<packet> content;
  const char* wrong = nullptr;
};

/// Accepts any bytes. `descriptors`: the number that came with them.
[[nodiscard]] decoded_packet decode(const unsigned char* data, std::size_t bytes,
                                    std::size_t descriptors);

/// At most max_packet_descriptors; zero if the bytes have no header.
[[nodiscard]] std::size_t promised_descriptors(const unsigned char* data,
                                               std::size_t bytes) noexcept;

/// Pre: decode() accepts the packet, with that many descriptors.
[[nodiscard]] std::vector<unsigned char> encode(const packet& content, std::size_t descriptors);

}  // namespace hipvmm::detail
