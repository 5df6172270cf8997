// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hipvmm/container/device_iterator.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/element_range.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>

namespace hipvmm {

template <typename T>
class partitioned_vector;
class reservation_request;

/// A vector that grows in place: growth maps more memory behind the elements, so no element is
/// copied, data() stays the same and kernels in flight continue.
/// - Elements are accessed in the order of a stream, never by reference.
/// - data() changes only past max_size(), by erase_front(), and as growable_storage::shrink() and
///   move_range() say.
/// - On a device without usable virtual memory it copies instead: is_address_stable(), explain().
/// - It grows in multiples of growth_options::granule_bytes, by default at least 2 MiB. For many
///   small arrays use device_uvector on a pool, or growth_options::resource.
/// - Same thread rules as std::vector. Construction without contents backs no memory.
/// - Strong guarantee, unless a function says otherwise. If a call fails after memory was added,
///   capacity() may have grown; past max_size() data() may have changed.
template <typename T>
class growable_device_vector : private growable_storage {
  static_assert(std::is_trivially_copyable_v<T>,
                "growable_device_vector<T>: T must be trivially copyable, because elements travel "
                "between host and device as bytes");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>,
                "growable_device_vector<T>: T must be neither const nor volatile");

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = device_iterator<T>;
  using const_iterator = device_iterator<const T>;

  /// Constructors without `device` use the current one.
  growable_device_vector() : growable_device_vector{device_ref::current()} {}
  /// Throws: as growable_storage.
  explicit growable_device_vector(device_ref device, const growth_options& options = {})
      : growable_storage{device, options} {}
  growable_device_vector(size_type count, stream_ref stream, const growth_options& options = {})
      : growable_device_vector{device_ref::current(), options} {
    resize(count, stream);
  }
  growable_device_vector(size_type count, const T& value, stream_ref stream,
                         const growth_options& options = {})
      : growable_device_vector{device_ref::current(), options} {
    resize(count, value, stream);
  }
  template <typename Range, typename = std::enable_if_t<detail::is_device_range_v<Range, T> ||
                                                        detail::is_host_range_v<Range, T>>>
  growable_device_vector(const Range& source, stream_ref stream, const growth_options& options = {})
      : growable_device_vector{device_ref::current(), options} {
    append(source, stream);
  }
  growable_device_vector(std::initializer_list<T> source, stream_ref stream,
                         const growth_options& options = {})
      : growable_device_vector{device_ref::current(), options} {
    append(source, stream);
  }
  /// As region::retire(). Its wait invalidates stream captures under way: clear() and
  /// shrink_to_fit(stream) before avoid that.
  ~growable_device_vector() = default;
  /// The moved-from vector is empty and may be used again.
  growable_device_vector(growable_device_vector&& other) noexcept
      : growable_storage{static_cast<growable_storage&&>(other)},
        size_{std::exchange(other.size_, 0)} {}
  growable_device_vector& operator=(growable_device_vector&& other) noexcept {
    growable_storage::operator=(static_cast<growable_storage&&>(other));
    if (this != &other) size_ = std::exchange(other.size_, 0);
    return *this;
  }
  friend void swap(growable_device_vector& a, growable_device_vector& b) noexcept { a.swap(b); }
  void swap(growable_device_vector& other) noexcept {
    std::swap<growable_storage>(*this, other);
    std::swap(size_, other.size_);
  }

  [[nodiscard]] size_type size() const noexcept { return size_; }
  [[nodiscard]] difference_type ssize() const noexcept {
    return static_cast<difference_type>(size_);
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool is_empty() const noexcept { return empty(); }
  [[nodiscard]] size_type capacity() const noexcept { return capacity_bytes() / sizeof(T); }
  /// Elements that fit from data() on in the reserved addresses, or without chunks in max_bytes.
  [[nodiscard]] size_type max_size() const noexcept { return max_bytes() / sizeof(T); }
  [[nodiscard]] pointer data() noexcept { return static_cast<T*>(growable_storage::data()); }
  [[nodiscard]] const_pointer data() const noexcept {
    return static_cast<const T*>(growable_storage::data());
  }
  [[nodiscard]] iterator begin() noexcept { return iterator{data()}; }
  [[nodiscard]] iterator end() noexcept { return begin() + ssize(); }
  [[nodiscard]] const_iterator begin() const noexcept { return const_iterator{data()}; }
  [[nodiscard]] const_iterator end() const noexcept { return begin() + ssize(); }
  [[nodiscard]] const_iterator cbegin() const noexcept { return begin(); }
  [[nodiscard]] const_iterator cend() const noexcept { return end(); }
  [[nodiscard]] device_span<T> span() noexcept { return {data(), size_}; }
  [[nodiscard]] device_span<const T> span() const noexcept { return {data(), size_}; }
  using growable_storage::device, growable_storage::event_id, growable_storage::explain;
  using growable_storage::is_address_stable, growable_storage::statistics;

  using growable_storage::access, growable_storage::grant;
  using growable_storage::revoke, growable_storage::set_access;

  using growable_storage::chunks, growable_storage::effective_access, growable_storage::move_range;
  using growable_storage::export_chunks, growable_storage::export_fabric_chunks;

  using growable_storage::is_asleep, growable_storage::require_awake;

  /// Backs at least `count` elements, without slack. Waits for a chunk that
  /// growth_options::grow_ahead has ordered and uses it whole; blocks as region::commit() may.
  /// Throws: std::length_error if `count` elements exceed the address space, or max_size() while
  /// past_max is refuse; as growable_storage::grow().
  void reserve(size_type count) { growable_storage::reserve(checked_bytes(count)); }

  /// New elements are zero bytes or copies of `value`. Throws: as reserve().
  void resize(size_type count, stream_ref stream) {
    lengthen(count,
             [&](T* end, size_type added) { fill_async(stream, end, 0, added * sizeof(T)); });
  }
  void resize(size_type count, const T& value, stream_ref stream) {
    lengthen(count, [&](T* end, size_type added) {
      fill_pattern_async(stream, end, &value, sizeof(T), added);
    });
  }
  void resize_uninitialized(size_type count) {
    lengthen(count, [](T*, size_type) {});
  }

  /// Pinned memory must not change until the copy is done; if `stream` is captured, each launch
  /// reads `source`. Throws: as reserve().
  void append(const T* source, size_type count, stream_ref stream) {
    if (count == 0) return;
    require_source(source, count);
    insert_at_end(count, [&](T* end) { copy_async(stream, end, source, count * sizeof(T)); });
  }
  /// Appends a contiguous host range with operator[] (std::vector, std::span, a C array), or, as
  /// append_from_device(), a device_span or a container of hipvmm.
  template <typename Range>
  void append(const Range& source, stream_ref stream) {
    with_elements(
        source, [&](device_span<const T> elements) { append_from_device(elements, stream); },
        [&](const T* first, size_type count) { append(first, count, stream); });
  }
  /// The list has been read when the call returns, also while `stream` is captured.
  void append(std::initializer_list<T> source, stream_ref stream) {
    insert_at_end(source.size(), [&](T* end) { write_list(end, source, stream); });
  }

  /// `source` may be in this vector. Throws: as reserve(), and as require_copies_from().
  void append_from_device(device_span<const T> source, stream_ref stream) {
    if (source.empty()) return;
    require_source(source.data(), source.size());
    // Growth may change data(), and a source inside this vector with it.
    const bool inside = is_inside(source.data());
    const std::size_t offset = inside ? offset_of(source.data()) : 0;
    if (!inside) require_copies_from(source.data(), stream);
    insert_at_end(source.size(), [&](T* end) {
      copy_async(stream, end, inside ? bytes_at(offset) : source.data(), source.size_bytes());
    });
  }

  /// Throws: as reserve().
  void push_back(const T& value, stream_ref stream) {
    insert_at_end(1, [&](T* end) { fill_pattern_async(stream, end, &value, sizeof(T), 1); });
  }
  /// Throws: std::out_of_range when empty.
  void pop_back() {
    if (size_ == 0)
      throw std::out_of_range{"growable_device_vector::pop_back: the vector is empty"};
    --size_;
  }

  /// The source is as for append(). Throws: as reserve().
  void assign(const T* source, size_type count, stream_ref stream) {
    if (count != 0) require_source(source, count);
    grow(checked_bytes(count));
    if (count != 0) copy_async(stream, data(), source, count * sizeof(T));
    size_ = count;
  }
  /// The source is as for append(). One inside this vector moves to data() as by erase().
  template <typename Range>
  void assign(const Range& source, stream_ref stream) {
    with_elements(
        source, [&](device_span<const T> elements) { assign_from_device(elements, stream); },
        [&](const T* first, size_type count) { assign(first, count, stream); });
  }
  void assign(std::initializer_list<T> source, stream_ref stream) {
    grow(checked_bytes(source.size()));
    write_list(data(), source, stream);
    size_ = source.size();
  }
  /// Throws: as reserve(); if HIP refuses one of several copies, the old elements are partly
  /// overwritten and the size stays.
  void assign(size_type count, const T& value, stream_ref stream) {
    grow(checked_bytes(count));
    if (count != 0) fill_pattern_async(stream, data(), &value, sizeof(T), count);
    size_ = count;
  }

  /// Inserts before `index`; elements behind move by growable_storage::move_within(). The source is
  /// as for append(). Throws: std::out_of_range beyond size(); as reserve() and move_within(); if
  /// HIP refuses one of several copies, elements from `index` on are partly overwritten.
  template <typename Range>
  void insert(size_type index, const Range& source, stream_ref stream) {
    with_elements(
        source, [&](device_span<const T> elements) { insert_from_device(index, elements, stream); },
        [&](const T* first, size_type count) { insert(index, first, count, stream); });
  }
  void insert(size_type index, const T* source, size_type count, stream_ref stream) {
    if (count != 0) require_source(source, count);
    insert_gap(index, count, stream,
               [&](T* gap) { copy_async(stream, gap, source, count * sizeof(T)); });
  }
  void insert(size_type index, std::initializer_list<T> source, stream_ref stream) {
    insert_gap(index, source.size(), stream, [&](T* gap) { write_list(gap, source, stream); });
  }
  void insert(size_type index, size_type count, const T& value, stream_ref stream) {
    insert_gap(index, count, stream,
               [&](T* gap) { fill_pattern_async(stream, gap, &value, sizeof(T), count); });
  }
  /// Elements behind move as by insert(); memory stays backed. Throws: std::out_of_range unless all
  /// `count` elements exist; as move_within(): elements from `index` on may be partly overwritten.
  void erase(size_type index, size_type count, stream_ref stream) {
    if (index > size_ || count > size_ - index)
      throw std::out_of_range{range_message("erase", index, count)};
    move_within(index * sizeof(T), (index + count) * sizeof(T), (size_ - index - count) * sizeof(T),
                stream);
    size_ -= count;
  }

  /// Removes the first `count` elements; data() is then the first remaining one. Whole chunks
  /// before it, but not the last chunk, are released as by region::decommit(). max_size() falls.
  /// - If past_max is move, growth beyond max_size() changes data() and uses the erased addresses
  ///   again. Until then no call writes to erased elements: appends in other streams need not wait
  ///   for work that reads them.
  /// - If past_max is refuse, a vector that becomes empty releases its chunks, and data() is its
  ///   first address again. Until then erased addresses are not used again.
  /// - Without chunks erased bytes are released with the next growth at the latest. If past_max is
  ///   refuse, they stay until the vector ends, and a vector that becomes empty waits for `stream`.
  /// Pre: all work that uses these elements is ordered before this call in `stream`.
  /// Throws: std::out_of_range; std::invalid_argument while `stream` is captured; hip_error.
  void erase_front(size_type count, stream_ref stream) {
    if (count > size_) throw std::out_of_range{range_message("erase_front", count)};
    growable_storage::erase_front(count * sizeof(T), stream, count == size_);
    size_ -= count;
  }
  void clear() noexcept { size_ = 0; }
  /// Releases memory behind the last element as growable_storage::shrink(). Returns its bytes.
  /// Pre: all work that uses the elements is ordered before this call in `stream`.
  /// Throws: std::invalid_argument while `stream` is captured; hip_error.
  std::size_t shrink_to_fit(stream_ref stream, tail_chunk tail = tail_chunk::keep) {
    return shrink(size_ * sizeof(T), stream, tail);
  }
  /// Waits for `stream`. Throws: std::out_of_range; hip_error.
  [[nodiscard]] T element(size_type index, stream_ref stream) const {
    require_index(index, "element");
    require_awake("growable_device_vector::element");
    storage_for_one value;
    copy(stream, &value, data() + index, sizeof(T));
    return *reinterpret_cast<const T*>(&value);
  }
  [[nodiscard]] T front_element(stream_ref stream) const { return element(0, stream); }
  [[nodiscard]] T back_element(stream_ref stream) const {
    return element(size_ == 0 ? 0 : size_ - 1, stream);
  }
  /// As device_uvector::set_element_async().
  void set_element_async(size_type index, const T& value, stream_ref stream) {
    require_index(index, "set_element");
    require_awake("growable_device_vector::set_element_async");
    fill_pattern_async(stream, data() + index, &value, sizeof(T), 1);
  }
  /// Waits for `stream`.
  void set_element(size_type index, const T& value, stream_ref stream) {
    set_element_async(index, value, stream);
    stream.synchronize();
  }

  /// Waits for `stream`. Throws: std::bad_alloc, hip_error.
  [[nodiscard]] std::vector<T> copy_to_host(stream_ref stream) const {
    std::vector<T> result(size_);
    copy_to_host(result.data(), size_, stream);
    return result;
  }
  /// Waits for `stream`. Throws: std::out_of_range if `count` exceeds size(), hip_error.
  void copy_to_host(T* destination, size_type count, stream_ref stream) const {
    if (count > size_) throw std::out_of_range{range_message("copy_to_host", count)};
    require_awake("growable_device_vector::copy_to_host");
    if (count != 0) copy(stream, destination, data(), count * sizeof(T));
  }
  /// Makes a vector of the same device, options, rights and contents. Waits for `stream` as
  /// share_rights(). Throws: as reserve().
  [[nodiscard]] growable_device_vector clone(stream_ref stream) const {
    growable_device_vector result{empty_copy()};
    result.reserve(size_);
    if (size_ != 0) copy_async(stream, result.data(), data(), size_ * sizeof(T));
    share_rights(result, stream);
    result.size_ = size_;
    return result;
  }

 private:
  friend class partitioned_vector<T>;
  friend class reservation_request;

  struct alignas(T) storage_for_one {
    unsigned char bytes[sizeof(T)];
  };

  explicit growable_device_vector(growable_storage storage)
      : growable_storage{std::move(storage)} {}

  static std::size_t checked_bytes(size_type count) {
    const std::size_t bytes = bytes_for(count, sizeof(T));
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()))
      throw std::length_error{"growable_device_vector: " + std::to_string(count) + " elements of " +
                              std::to_string(sizeof(T)) + " bytes exceed the address space"};
    return bytes;
  }

  std::string range_message(const char* function, size_type value, size_type count = 0) const {
    return std::string{"growable_device_vector::"} + function + ": " + std::to_string(value) +
           (count == 0 ? "" : " + " + std::to_string(count)) + " is beyond the size, " +
           std::to_string(size_);
  }
  void require_index(size_type index, const char* function) const {
    if (index >= size_) throw std::out_of_range{range_message(function, index)};
  }
  static void require_source(const T* source, size_type count) {
    if (source == nullptr)
      throw std::invalid_argument{"growable_device_vector: the source of " + std::to_string(count) +
                                  " elements is null"};
  }

  template <typename Range, typename OfDevice, typename OfHost>
  static void with_elements(const Range& source, OfDevice of_device, OfHost of_host) {
    if constexpr (detail::is_device_range_v<Range, T>) {
      if constexpr (std::is_base_of_v<growable_storage, Range>)
        source.require_awake("growable_device_vector: the source");
      of_device(device_span<const T>{source});
    } else {
      static_assert(
          detail::is_host_range_v<Range, T>,
          "growable_device_vector<T>: the source must be a contiguous range of T that the "
          "host can index, such as std::vector<T>, or a container of hipvmm; name other "
          "device memory by a device_span<const T>");
      if constexpr (detail::is_host_range_v<Range, T>)
        of_host(std::data(source), std::size(source));
    }
  }

  // A list is destroyed at the end of the statement, before a captured copy would read it.
  static void write_list(T* at, std::initializer_list<T> source, stream_ref stream) {
    if (source.size() != 0)
      fill_pattern_async(stream, at, source.begin(), source.size() * sizeof(T), 1);
  }

  template <typename Write>
  void insert_at_end(size_type count, Write write) {
    grow_by(count);
    write(data() + size_);
    size_ += count;
  }
  /// A callback of a memory event may change the size.
  void grow_by(size_type count) {
    do {
      grow(checked_bytes(add_bytes(size_, count)));
    } while (capacity() < size_ + count);
  }
  template <typename Fill>
  void lengthen(size_type count, Fill fill) {
    if (count > size_) grow(checked_bytes(count));
    if (count > size_) fill(data() + size_, count - size_);
    size_ = count;
  }

  template <typename Write>
  void insert_gap(size_type index, size_type count, stream_ref stream, Write write) {
    if (index > size_) throw std::out_of_range{range_message("insert", index)};
    if (count == 0) return;
    grow_by(count);
    if (index > size_) throw std::out_of_range{range_message("insert", index)};
    move_within((index + count) * sizeof(T), index * sizeof(T), (size_ - index) * sizeof(T),
                stream);
    write(data() + index);
    size_ += count;
  }
  void insert_from_device(size_type index, device_span<const T> source, stream_ref stream) {
    if (source.empty()) return insert_gap(index, 0, stream, [](T*) {});
    require_source(source.data(), source.size());
    const bool inside = is_inside(source.data());
    const std::size_t offset = inside ? offset_of(source.data()) : 0;
    if (!inside) require_copies_from(source.data(), stream);
    const std::size_t bytes = source.size_bytes();
    insert_gap(index, source.size(), stream, [&](T* gap) {
      if (!inside) return copy_async(stream, gap, source.data(), bytes);
      // The part of the source behind the gap has moved by the length of the gap.
      const std::size_t gap_at = index * sizeof(T);
      const std::size_t before = offset < gap_at ? std::min(gap_at - offset, bytes) : 0;
      auto* const to = reinterpret_cast<unsigned char*>(gap);
      if (before != 0) copy_async(stream, to, bytes_at(offset), before);
      if (before != bytes)
        copy_async(stream, to + before, bytes_at(offset + before + bytes), bytes - before);
    });
  }
  void assign_from_device(device_span<const T> source, stream_ref stream) {
    if (!source.empty()) require_source(source.data(), source.size());
    if (is_inside(source.data())) {
      const std::size_t offset = offset_of(source.data());
      move_within(0, offset, source.size_bytes(), stream);
    } else if (!source.empty()) {
      require_copies_from(source.data(), stream);
      grow(source.size_bytes());
      copy_async(stream, data(), source.data(), source.size_bytes());
    }
    size_ = source.size();
  }

  [[nodiscard]] bool is_inside(const T* source) const noexcept {
    const std::less<const T*> less;
    return size_ != 0 && !less(source, data()) && less(source, data() + size_);
  }
  [[nodiscard]] std::size_t offset_of(const T* source) const noexcept {
    return static_cast<std::size_t>(reinterpret_cast<const unsigned char*>(source) -
                                    reinterpret_cast<const unsigned char*>(data()));
  }
  [[nodiscard]] const void* bytes_at(std::size_t offset) const noexcept {
    return reinterpret_cast<const unsigned char*>(data()) + offset;
  }

  size_type size_ = 0;
};

}  // namespace hipvmm
