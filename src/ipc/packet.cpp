// SPDX-License-Identifier: MIT
#include "ipc/packet.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

namespace hipvmm::detail {
namespace {

constexpr std::array<unsigned char, 8> magic{'h', 'i', 'p', 'v', 'm', 'm', 'I', 'P'};
constexpr std::size_t place_bytes = 32;
constexpr std::size_t uuid_bytes = 16;

/// Reads numbers one after another. Pre: the caller has checked the length.
class reader {
 public:
  explicit reader(const unsigned char* from) noexcept : at_{from} {}

  template <typename Number>
  [[nodiscard]] Number number() noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      value |= std::uint64_t{at_[i]} << (8U * static_cast<unsigned>(i));
    at_ += sizeof(Number);
    return static_cast<Number>(value);
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

// The bytes of a packet's body by its kind, and its fields in their order. `Io` reads or writes.
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
  for (std::uint64_t* field : {&shape.granularity, &shape.max_bytes, &shape.data_offset,
                               &shape.element_size, &shape.element_align, &shape.element_tag})
    io.number(*field);
}
constexpr std::size_t shape_bytes = 16 + 6 * 8;

/// Gives reader and writer the same interface.
struct field_reader {
  reader from;
  template <typename Number>
  void number(Number& into) {
    into = from.number<Number>();
  }
  template <typename Bytes>
  void bytes(Bytes& into) {
    from.bytes(into);
  }
};

decoded_packet wrong(const char* what) { return {std::nullopt, what}; }

bool is_sane(const chunk_record& place) {
  return place.bytes != 0 && place.serial != 0 && place.offset <= UINT64_MAX - place.bytes &&
         place.device < max_published_devices;
}

template <typename List>
decoded_packet decode_places(const unsigned char* body, std::size_t bytes, std::size_t most,
                             std::size_t least = 1) {
  const std::size_t count = bytes / place_bytes;
  if (bytes % place_bytes != 0 || count < least || count > most)
    return wrong("its list of chunks has a wrong length");
  List list;
  list.chunks.reserve(count);
  reader from{body};
  for (std::size_t i = 0; i < count; ++i) {
    chunk_record place{};
    place.offset = from.number<std::uint64_t>();
    place.bytes = from.number<std::uint64_t>();
    place.serial = from.number<std::uint64_t>();
    place.device = from.number<std::uint64_t>();
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
    return wrong("its length is not that of its kind");
  welcome_packet content{};
  field_reader from{reader{body}};
  transfer(from, content.identity);
  transfer(from, content.shape);
  from.number(content.epoch);
  content.other_devices.resize((bytes - least) / uuid_bytes);
  for (auto& each : content.other_devices) from.bytes(each);
  const publication_header& shape = content.shape;
  // Powers of two and bounds that the later checks compute with.
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

template <typename Numbered>
decoded_packet decode_numbers(const unsigned char* body) {
  reader from{body};
  Numbered content{};
  content.ticket = from.number<std::uint64_t>();
  content.epoch = from.number<std::uint64_t>();
  return {packet{content}};
}

decoded_packet decode_block(const unsigned char* body) {
  reader from{body};
  block_packet content{};
  content.offset = from.number<std::uint64_t>();
  content.bytes = from.number<std::uint64_t>();
  content.chunks = from.number<std::uint64_t>();
  if (content.bytes == 0 || content.offset > UINT64_MAX - content.bytes)
    return wrong("the block in it has no size, or an end past 2^64");
  if (content.chunks == 0 || content.chunks > max_chunks_of_block)
    return wrong("the block in it has no chunks, or too many");
  return {packet{content}};
}

constexpr std::uint16_t kind_of(std::size_t index) { return static_cast<std::uint16_t>(index + 1); }
constexpr std::uint16_t chunks_kind = kind_of(0);
constexpr std::uint16_t note_kind = kind_of(1);
constexpr std::uint16_t hello_kind = kind_of(2);
constexpr std::uint16_t welcome_kind = kind_of(3);
constexpr std::uint16_t refusal_kind = kind_of(4);
constexpr std::uint16_t request_kind = kind_of(5);
constexpr std::uint16_t retired_kind = kind_of(6);
constexpr std::uint16_t complete_kind = kind_of(7);
constexpr std::uint16_t block_kind = kind_of(8);
constexpr std::uint16_t present_kind = kind_of(9);
constexpr std::uint16_t answer_kind = kind_of(10);
constexpr std::uint16_t expired_kind = kind_of(11);

decoded_packet decode_body(std::uint16_t kind, const unsigned char* body, std::size_t bytes) {
  const auto sized = [&](std::size_t wanted, auto read) {
    return bytes == wanted ? read(body) : wrong("its length is not that of its kind");
  };
  switch (kind) {
    case chunks_kind:
      return decode_places<chunk_packet>(body, bytes, max_packet_descriptors);
    case note_kind:
      return decode_text<note_packet>(body, bytes);
    case hello_kind:
      return sized(identity_bytes, [](const unsigned char* from) {
        hello_packet content{};
        field_reader fields{reader{from}};
        transfer(fields, content.identity);
        return decoded_packet{packet{content}};
      });
    case welcome_kind:
      return decode_welcome(body, bytes);
    case refusal_kind:
      return decode_text<refusal_packet>(body, bytes);
    case request_kind:
      return sized(16, decode_numbers<request_packet>);
    case retired_kind:
      return decode_places<retired_packet>(body, bytes, max_places_in_packet);
    case complete_kind:
      return sized(16, decode_numbers<complete_packet>);
    case block_kind:
      return sized(24, decode_block);
    case present_kind:
      return decode_places<present_packet>(body, bytes, max_places_in_packet, 0);
    case answer_kind:
      return sized(16, decode_numbers<answer_packet>);
    case expired_kind:
      return decode_text<expired_packet>(body, bytes);
    default:
      return wrong("its kind is unknown");
  }
}

std::size_t descriptors_of(const packet& content) {
  if (const auto* const chunks = std::get_if<chunk_packet>(&content)) return chunks->chunks.size();
  return std::holds_alternative<welcome_packet>(content) ? 1 : 0;
}

struct header_fields {
  std::uint16_t version;
  std::uint16_t kind;
  std::uint16_t descriptors;
  std::uint16_t reserved;
  std::uint32_t body_bytes;
  std::uint32_t reserved_too;
};

/// Pre: the bytes contain a header.
header_fields read_header(const unsigned char* data) {
  reader from{data + magic.size()};
  header_fields header{};
  header.version = from.number<std::uint16_t>();
  header.kind = from.number<std::uint16_t>();
  header.descriptors = from.number<std::uint16_t>();
  header.reserved = from.number<std::uint16_t>();
  header.body_bytes = from.number<std::uint32_t>();
  header.reserved_too = from.number<std::uint32_t>();
  return header;
}

bool has_magic(const unsigned char* data, std::size_t bytes) {
  return bytes >= packet_header_bytes && std::memcmp(data, magic.data(), magic.size()) == 0;
}

void write_places(writer& to, const std::vector<chunk_record>& places) {
  for (const chunk_record& each : places) {
    to.number(each.offset);
    to.number(each.bytes);
    to.number(each.serial);
    to.number(each.device);
  }
}

std::vector<unsigned char> encode_body(const packet& content) {
  writer to;
  std::visit(
      // transfer() reads and writes, so that it takes no constant.
      [&to](auto kind) {  // NOLINT(performance-unnecessary-value-param)
        using kind_type = decltype(kind);
        if constexpr (std::is_same_v<kind_type, chunk_packet> ||
                      std::is_same_v<kind_type, retired_packet> ||
                      std::is_same_v<kind_type, present_packet>) {
          write_places(to, kind.chunks);
        } else if constexpr (std::is_same_v<kind_type, note_packet> ||
                             std::is_same_v<kind_type, refusal_packet> ||
                             std::is_same_v<kind_type, expired_packet>) {
          to.bytes(kind.text);
        } else if constexpr (std::is_same_v<kind_type, hello_packet>) {
          transfer(to, kind.identity);
        } else if constexpr (std::is_same_v<kind_type, welcome_packet>) {
          transfer(to, kind.identity);
          transfer(to, kind.shape);
          to.number(kind.epoch);
          for (const auto& each : kind.other_devices) to.bytes(each);
        } else if constexpr (std::is_same_v<kind_type, block_packet>) {
          to.number(kind.offset);
          to.number(kind.bytes);
          to.number(kind.chunks);
        } else {
          to.number(kind.ticket);
          to.number(kind.epoch);
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
  to.bytes(magic);
  to.number(protocol_version);
  to.number(kind_of(content.index()));
  to.number(static_cast<std::uint16_t>(descriptors));
  to.number(std::uint16_t{0});
  to.number(static_cast<std::uint32_t>(body.size()));
  to.number(std::uint32_t{0});
  to.bytes(body);
  return to.take();
}

}  // namespace hipvmm::detail
