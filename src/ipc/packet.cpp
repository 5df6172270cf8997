// SPDX-License-Identifier: MIT
#include "ipc/packet.hpp"

#include <cstring>
#include <utility>

namespace hipvmm::detail {
namespace {

constexpr std::array<unsigned char, 8> magic{'h', 'i', 'p', 'v', 'm', 'm', 'I', 'P'};
constexpr std::size_t place_bytes = 32;
constexpr std::size_t uuid_bytes = 16;

/// Pre: the caller has checked the length.
class reader {
 public:
  explicit reader(const unsigned char* from) noexcept : at_{from} {}

  template <typename Number>
  void number(Number& into) noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      value |= std::uint64_t{at_[i]} << (8U * static_cast<unsigned>(i));
    at_ += sizeof(Number);
    into = static_cast<Number>(value);
  }
  template <typename Byte, std::size_t Size>
  void bytes(std::array<Byte, Size>& into) noexcept {
    std::memcpy(into.data(), at_, Size);
    at_ += Size;
  }

 private:
  const unsigned char* at_;
};

class writer {
 public:
  template <typename Number>
  void number(Number value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      bytes_.push_back(
          static_cast<unsigned char>(std::uint64_t{value} >> (8U * static_cast<unsigned>(i))));
  }
  template <typename Bytes>
  void bytes(const Bytes& from) {
    for (const auto each : from) bytes_.push_back(static_cast<unsigned char>(each));
  }
  [[nodiscard]] std::vector<unsigned char> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<unsigned char> bytes_;
};

struct header_fields {
  std::uint16_t version;
  std::uint16_t kind;
  std::uint16_t descriptors;
  std::uint16_t reserved;
  std::uint32_t body_bytes;
  std::uint32_t reserved_too;
};

template <typename Io, typename... Numbers>
void transfer_numbers(Io& io, Numbers&... numbers) {
  (io.number(numbers), ...);
}

template <typename Io>
void transfer(Io& io, header_fields& header) {
  transfer_numbers(io, header.version, header.kind, header.descriptors, header.reserved,
                   header.body_bytes, header.reserved_too);
}

template <typename Io>
void transfer(Io& io, chunk_record& place) {
  transfer_numbers(io, place.offset, place.bytes, place.serial, place.device);
}

template <typename Io>
void transfer(Io& io, build_identity& identity) {
  for (std::uint16_t& part : identity.version) io.number(part);
  io.bytes(identity.provider);
  io.number(identity.runtime);
}
constexpr std::size_t identity_bytes = 6 + 16 + 8;

template <typename Io>
void transfer(Io& io, publication_header& shape) {
  io.bytes(shape.device);
  transfer_numbers(io, shape.granularity, shape.max_bytes, shape.data_offset, shape.element_size,
                   shape.element_align, shape.element_tag);
}
constexpr std::size_t shape_bytes = 16 + 6 * 8;

template <typename Io>
void transfer(Io& io, hello_packet& hello) {
  transfer(io, hello.identity);
}

/// Pre: other_devices has its size already.
template <typename Io>
void transfer(Io& io, welcome_packet& welcome) {
  transfer(io, welcome.identity);
  transfer(io, welcome.shape);
  io.number(welcome.epoch);
  for (auto& each : welcome.other_devices) io.bytes(each);
}

template <typename Io>
void transfer(Io& io, block_packet& block) {
  transfer_numbers(io, block.offset, block.bytes, block.chunks);
}

template <typename Io, typename Numbered>
void transfer(Io& io, Numbered& content) {
  transfer_numbers(io, content.ticket, content.epoch);
}

decoded_packet wrong(const char* what) { return {std::nullopt, what}; }
decoded_packet wrong_length() { return wrong("its length is not that of its kind"); }

bool is_sane(const chunk_record& place) {
  return place.bytes != 0 && place.serial != 0 && place.offset <= UINT64_MAX - place.bytes &&
         place.device < max_published_devices;
}

template <typename List, std::size_t Least, std::size_t Most>
decoded_packet decode_places(const unsigned char* body, std::size_t bytes) {
  const std::size_t count = bytes / place_bytes;
  if (bytes % place_bytes != 0 || count < Least || count > Most)
    return wrong("its list of chunks has a wrong length");
  List list;
  list.chunks.reserve(count);
  reader from{body};
  for (std::size_t i = 0; i < count; ++i) {
    chunk_record place{};
    transfer(from, place);
    if (!is_sane(place))
      return wrong("a chunk in it has no size, no serial, no device or an end past 2^64");
    list.chunks.push_back(place);
  }
  return {packet{std::move(list)}};
}

template <typename Text>
decoded_packet decode_text(const unsigned char* body, std::size_t bytes) {
  if (bytes == 0 || bytes > max_packet_text) return wrong("its text is empty or too long");
  return {packet{Text{std::string(reinterpret_cast<const char*>(body), bytes)}}};
}

decoded_packet decode_welcome(const unsigned char* body, std::size_t bytes) {
  constexpr std::size_t least = identity_bytes + shape_bytes + 8;
  if (bytes < least || (bytes - least) % uuid_bytes != 0 ||
      (bytes - least) / uuid_bytes >= max_published_devices)
    return wrong_length();
  welcome_packet content{};
  content.other_devices.resize((bytes - least) / uuid_bytes);
  reader from{body};
  transfer(from, content);
  const publication_header& shape = content.shape;
  // Later checks compute with these powers of two and bounds.
  const auto is_power = [](std::uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
  };
  if (!is_power(shape.granularity) || shape.max_bytes == 0 ||
      shape.max_bytes % shape.granularity != 0 || shape.data_offset >= shape.max_bytes)
    return wrong("its sizes contradict each other");
  if (shape.element_size != 0 &&
      (!is_power(shape.element_align) || shape.element_size % shape.element_align != 0))
    return wrong("its element type has a size that is no multiple of its alignment");
  return {packet{std::move(content)}};
}

template <typename Content, std::size_t Bytes>
decoded_packet decode_fields(const unsigned char* body, std::size_t bytes) {
  if (bytes != Bytes) return wrong_length();
  reader from{body};
  Content content{};
  transfer(from, content);
  return {packet{content}};
}

decoded_packet decode_block(const unsigned char* body, std::size_t bytes) {
  if (bytes != 24) return wrong_length();
  reader from{body};
  block_packet content{};
  transfer(from, content);
  if (content.bytes == 0 || content.offset > UINT64_MAX - content.bytes)
    return wrong("the block in it has no size, or an end past 2^64");
  if (content.chunks == 0 || content.chunks > max_chunks_of_block)
    return wrong("the block in it has no chunks, or too many");
  return {packet{content}};
}

// In the order of `packet`.
constexpr std::array<decoded_packet (*)(const unsigned char* body, std::size_t bytes),
                     std::variant_size_v<packet>>
    decoders{decode_places<chunk_packet, 1, max_packet_descriptors>,
             decode_text<note_packet>,
             decode_fields<hello_packet, identity_bytes>,
             decode_welcome,
             decode_text<refusal_packet>,
             decode_fields<request_packet, 16>,
             decode_places<retired_packet, 1, max_places_in_packet>,
             decode_fields<complete_packet, 16>,
             decode_block,
             decode_places<present_packet, 0, max_places_in_packet>,
             decode_fields<answer_packet, 16>,
             decode_text<expired_packet>};

constexpr std::uint16_t kind_of(std::size_t index) { return static_cast<std::uint16_t>(index + 1); }

decoded_packet decode_body(std::uint16_t kind, const unsigned char* body, std::size_t bytes) {
  if (kind < kind_of(0) || kind >= kind_of(decoders.size())) return wrong("its kind is unknown");
  return decoders[kind - kind_of(0)](body, bytes);
}

std::size_t descriptors_of(const packet& content) {
  if (const auto* const chunks = std::get_if<chunk_packet>(&content)) return chunks->chunks.size();
  return std::holds_alternative<welcome_packet>(content) ? 1 : 0;
}

header_fields read_header(const unsigned char* data) {
  reader from{data + magic.size()};
  header_fields header{};
  transfer(from, header);
  return header;
}

bool has_magic(const unsigned char* data, std::size_t bytes) {
  return bytes >= packet_header_bytes && std::memcmp(data, magic.data(), magic.size()) == 0;
}

std::vector<unsigned char> encode_body(const packet& content) {
  writer to;
  std::visit(
      // By value: transfer(), which also reads, takes no constant.
      [&to](auto kind) {  // NOLINT(performance-unnecessary-value-param)
        if constexpr (requires { kind.text; }) {
          to.bytes(kind.text);
        } else if constexpr (requires { kind.chunks.size(); }) {
          for (chunk_record& each : kind.chunks) transfer(to, each);
        } else {
          transfer(to, kind);
        }
      },
      content);
  return to.take();
}

}  // namespace

decoded_packet decode(const unsigned char* data, std::size_t bytes, std::size_t descriptors) {
  if (bytes < packet_header_bytes) return wrong("it is shorter than a header");
  if (bytes > max_packet_bytes) return wrong("it is longer than any packet");
  if (!has_magic(data, bytes)) return wrong("it does not begin with hipvmm's mark");
  const header_fields header = read_header(data);
  if (header.version != protocol_version)
    return wrong("it is of another version of the protocol: use the same hipvmm on both sides");
  if (header.reserved != 0 || header.reserved_too != 0) return wrong("a reserved field is set");
  if (header.body_bytes != bytes - packet_header_bytes)
    return wrong("its length is not the one that it states");
  if (header.descriptors != descriptors)
    return wrong("it came with other descriptors than it states");
  decoded_packet result =
      decode_body(header.kind, data + packet_header_bytes, bytes - packet_header_bytes);
  if (result.content && descriptors_of(*result.content) != descriptors)
    return wrong("its kind has another number of descriptors");
  return result;
}

std::size_t promised_descriptors(const unsigned char* data, std::size_t bytes) noexcept {
  if (!has_magic(data, bytes)) return 0;
  const std::size_t count = read_header(data).descriptors;
  return count <= max_packet_descriptors ? count : max_packet_descriptors;
}

std::vector<unsigned char> encode(const packet& content, std::size_t descriptors) {
  const std::vector<unsigned char> body = encode_body(content);
  writer to;
  header_fields header{protocol_version,
                       kind_of(content.index()),
                       static_cast<std::uint16_t>(descriptors),
                       0,
                       static_cast<std::uint32_t>(body.size()),
                       0};
  to.bytes(magic);
  transfer(to, header);
  to.bytes(body);
  return to.take();
}

}  // namespace hipvmm::detail
