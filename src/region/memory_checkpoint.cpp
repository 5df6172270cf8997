// SPDX-License-Identifier: MIT
#include <hipvmm/region/memory_checkpoint.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "region/sleep/file_copies.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm {
namespace {

using file_word = std::uint64_t;

/// `sum` is the checksum of the head, which follows. The contents come last, in the head's order.
struct file_start {
  char magic[16];
  file_word byte_order;
  file_word sum;
  file_word head_bytes;
};
constexpr file_start expected_start{{"hipvmm memory 2"}, 1, 0, 0};

struct saved_range {
  file_word address;
  file_word bytes;
};

/// Pre: `range` does not wrap.
bool has(const saved_range& range, const saved_range& of) noexcept {
  const file_word offset = of.address - range.address;
  return of.address >= range.address && offset <= range.bytes && of.bytes <= range.bytes - offset;
}

struct saved_object {
  saved_range addresses;
  std::vector<saved_range> chunks;
  std::vector<saved_range> contents;

  [[nodiscard]] bool is_possible() const noexcept {
    const auto is_here = [&](const saved_range& each) {
      return each.bytes != 0 && has(addresses, each);
    };
    return has({1, ~file_word{0} - 1}, addresses) && addresses.bytes != 0 &&
           std::ranges::all_of(chunks, is_here) && std::ranges::all_of(contents, is_here);
  }
};

/// Reads each part from a const text, or appends it to another.
template <class Text>
class head_text {
 public:
  explicit head_text(Text& text) noexcept : text_{text} {}

  void part(file_word& value) { bytes(&value, sizeof(value)); }
  void part(saved_range& range) {
    part(range.address);
    part(range.bytes);
  }
  void part(saved_object& object) {
    part(object.addresses);
    part(object.chunks);
    part(object.contents);
  }
  template <class List>
  void part(List& list) {
    file_word count = list.size();
    part(count);
    if constexpr (is_read) {
      // Refuses a count that the rest cannot hold: an element has at least the bytes of a range, a
      // letter one byte.
      const std::size_t least = std::is_same_v<List, std::string> ? 1 : sizeof(saved_range);
      require(count <= (text_.size() - done_) / least);
      list.resize(count);
    }
    for (auto& each : list) part(each);
  }
  void part(char& letter) { bytes(&letter, 1); }
  [[nodiscard]] bool is_done() const noexcept { return done_ == text_.size(); }

 private:
  static constexpr bool is_read = std::is_const_v<Text>;
  static void require(bool is_there) {
    if (!is_there) throw std::invalid_argument{"its head is too short"};
  }
  void bytes(void* value, std::size_t count) {
    if constexpr (is_read) {
      require(count <= text_.size() - done_);
      std::memcpy(value, text_.data() + done_, count);
      done_ += count;
    } else {
      text_.append(static_cast<const char*>(value), count);
    }
  }

  Text& text_;
  std::size_t done_ = 0;
};

struct checkpoint_head {
  file_word file_bytes = 0;
  file_word contents_sum = 0;
  file_word granularity = 0;
  std::string device;
  std::string notes;
  std::vector<saved_object> objects;

  template <class Text>
  [[nodiscard]] bool pass(Text& text) {
    head_text<Text> all{text};
    all.part(file_bytes);
    all.part(contents_sum);
    all.part(granularity);
    all.part(device);
    all.part(notes);
    all.part(objects);
    return all.is_done();
  }
  [[nodiscard]] std::string text() {
    std::string result;
    static_cast<void>(pass(result));
    return result;
  }
  [[nodiscard]] file_word bytes_of_contents() const noexcept {
    file_word sum = 0;
    for (const saved_object& each : objects) sum += detail::bytes_of(each.contents);
    return sum;
  }
};

file_word saved_address(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

void* address_in_file(file_word address) noexcept { return reinterpret_cast<void*>(address); }

/// Appends the ranges of contents to `all` too.
saved_object record_of(detail::sleep_participant& one, std::vector<detail::sleeping_range>& all) {
  saved_object result;
  const auto [start, bytes] = one.addresses_of();
  result.addresses = {saved_address(start), bytes};
  for (const detail::sleeping_range& each : one.contents()) {
    result.contents.push_back({saved_address(each.address), each.bytes});
    all.push_back(each);
  }
  const detail::chunks_that_stay_mapped chunks = one.staying({keep::mapped, {}});
  if (detail::bytes_of(chunks.ranges) != chunks.bytes)
    throw unsupported{"save_checkpoint: memory of the object at " + detail::address_text(start) +
                      " is shown at several addresses, as share_prefix() does, and would come back "
                      "as several: release the slots that share it first"};
  auto next = result.contents.begin();
  for (const suspend_range& each : chunks.ranges) {
    const file_word at = saved_address(each.address);
    while (next != result.contents.end() && next->address + next->bytes <= at) ++next;
    if (next != result.contents.end() && next->address < at + each.bytes)
      result.chunks.push_back({at, each.bytes});
  }
  return result;
}

void require_same(device_ref device, device_ref first) {
  if (device != first)
    throw unsupported{"save_checkpoint: the tag has memory of devices " +
                      std::to_string(first.ordinal()) + " and " + std::to_string(device.ordinal()) +
                      ", and would come back on one: give each device's memory a tag of its own"};
}

/// Throws: std::invalid_argument, which says what is wrong with the file.
checkpoint_head read_head(const detail::backup_file& file) {
  const auto require = [](bool is_right, const char* wrong) {
    if (!is_right) throw std::invalid_argument{wrong};
  };
  file_start start{};
  require(file.bytes() >= sizeof(start), "it is too short");
  file.read(&start, sizeof(start), 0);
  require(std::memcmp(&start, &expected_start, offsetof(file_start, sum)) == 0,
          "it does not begin as a checkpoint of this version and byte order does");
  require(start.head_bytes <= file.bytes() - sizeof(start), "its head is cut off");
  std::string text(start.head_bytes, '\0');
  file.read(text.data(), text.size(), sizeof(start));
  require(start.sum == detail::checksum(text.data(), text.size()), "its head is damaged");
  checkpoint_head head;
  require(head.pass(std::as_const(text)) &&
              std::ranges::all_of(head.objects, &saved_object::is_possible) &&
              head.bytes_of_contents() <= head.file_bytes &&
              head.file_bytes - head.bytes_of_contents() == sizeof(start) + text.size(),
          "its head contradicts itself");
  require(head.file_bytes == file.bytes(), "contents are missing, or other bytes follow");
  return head;
}

void require_fits(const checkpoint_head& head, device_ref device, const region_options& options) {
  const file_word unit = granularity_of(device).minimum;
  if (!head.device.empty() && (head.device != device.name() || head.granularity != unit))
    throw std::invalid_argument{"it is of a device " + head.device + " with a granularity of " +
                                format_bytes(head.granularity) + ", and device " +
                                std::to_string(device.ordinal()) + " is a " + device.name() +
                                " with " + format_bytes(unit) + ": load it on one like its own"};
  if (options.access.find(device) && *options.access.find(device) != access_right::read_write)
    throw std::invalid_argument{
        "region_options::access gives device " + std::to_string(device.ordinal()) +
        ", which copies the contents, no read_write: give that, and less after the load"};
}

/// Returns the checksum of the contents.
file_word back_and_fill(memory_checkpoint& into, const checkpoint_head& head,
                        const detail::backup_file& file, device_ref device,
                        const region_options& options) {
  // All addresses first, because allocations might take some.
  for (const saved_object& each : head.objects)
    into.regions.push_back(detail::region_at(address_in_file(each.addresses.address), device,
                                             each.addresses.bytes, options));
  file_word sum = 0;
  detail::file_copies copies{sum};
  try {
    auto made = into.regions.begin();
    std::size_t from = head.file_bytes - head.bytes_of_contents();
    for (const saved_object& each : head.objects) {
      region& one = *made++;
      for (const saved_range& chunk : each.chunks)
        one.commit(chunk.address - each.addresses.address, chunk.bytes);
      for (const saved_range& part : each.contents) {
        if (one.committed_from(part.address - each.addresses.address) < part.bytes)
          throw std::invalid_argument{"load_checkpoint: the file has contents without a chunk"};
        copies.load(device, address_in_file(part.address), part.bytes, file, from);
        from += part.bytes;
      }
    }
    copies.finish();
  } catch (...) {
    if (!copies.drain())
      for (region& each : into.regions) each.retire();
    throw;
  }
  return sum;
}

}  // namespace

std::size_t save_checkpoint(const memory_tag& tag, const std::string& path, std::string_view notes,
                            std::optional<stream_ref> stream) {
  checkpoint_head head;
  tag.state()->read_awake("save_checkpoint", stream, [&](const auto& carriers) {
    std::vector<detail::sleeping_range> contents;
    head.notes = notes;
    for (const auto& each : carriers) {
      head.objects.push_back(record_of(*each.who, contents));
      require_same(each.who->device(), carriers.front().who->device());
    }
    if (!carriers.empty()) {
      const device_ref device = carriers.front().who->device();
      head.device = device.name();
      head.granularity = granularity_of(device).minimum;
    }
    file_start start = expected_start;
    start.head_bytes = head.text().size();
    std::size_t offset = sizeof(start) + start.head_bytes;
    head.file_bytes = offset + head.bytes_of_contents();
    auto file = detail::backup_file::beside(path, head.file_bytes);
    detail::file_copies copies{head.contents_sum};  // declared after the file, which they use
    for (const detail::sleeping_range& each : contents) {
      copies.save(each.device, each.address, each.bytes, file, offset);
      offset += each.bytes;
    }
    copies.finish();
    const std::string text = head.text();
    start.sum = detail::checksum(text.data(), text.size());
    file.write(&start, sizeof(start), 0);
    file.write(text.data(), text.size(), sizeof(start));
    file.take_name(path);
  });
  return head.bytes_of_contents();
}

memory_checkpoint load_checkpoint(const std::string& path, device_ref device,
                                  const region_options& options) {
  require_device(device);
  detail::require_file_name(path);
  const auto refuse = [&](const std::string& wrong) {
    throw std::invalid_argument{"load_checkpoint: " + path + ": " + wrong};
  };
  detail::backup_file file;
  checkpoint_head head;
  try {
    file = detail::backup_file::open(path);
    head = read_head(file);
    require_fits(head, device, options);
  } catch (const std::invalid_argument& wrong) {
    refuse(wrong.what());
  }
  memory_checkpoint result;
  result.notes = std::move(head.notes);
  if (back_and_fill(result, head, file, device, options) != head.contents_sum)
    refuse("its contents are damaged");
  return result;
}

}  // namespace hipvmm
