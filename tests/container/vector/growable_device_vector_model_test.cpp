// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream_pool.hpp>
#include "container/container_test.hpp"
#include "support/test_bytes.hpp"

namespace hipvmm::test {
namespace {

/// A vector on a device and the std::vector that it must equal, driven by the same random calls on
/// several streams, each of which waits for the one before it. A peer gets and loses a right.
template <typename T>
class twins {
 public:
  explicit twins(const growth_options& options, device_ref device = first_device)
      : streams_{device, 3},
        previous_{device},
        // A resource's memory is open to the devices that it says.
        peer_{options.resource == nullptr ? peer_of(device) : std::nullopt},
        vector_{device, options} {
    if (peer_) of_peer_.emplace(*peer_);
  }

  void run(int steps) {
    for (int done = 0; done < steps; ++done) {
      CAPTURE(done);
      step();
      if (done % 10 == 0) compare();
    }
    compare();
  }
  void step() {
    const stream_ref stream = streams_.get_stream(below(generator_, streams_.size()));
    stream.wait(previous_);
    change(stream);
    previous_.record(stream);
    REQUIRE(device_ref::current() == first_device);
    REQUIRE(vector_.size() == model_.size());
    REQUIRE(vector_.capacity() >= vector_.size());
    REQUIRE(vector_.max_size() >= vector_.capacity());
  }
  void compare() {
    const bool peer_reads = right_ != access_right::none;
    const stream_ref stream = peer_reads ? of_peer_->ref() : streams_.get_stream();
    stream.wait(previous_);
    REQUIRE(vector_.copy_to_host(stream) == model_);
    if (!peer_) return;
    REQUIRE(vector_.access(*peer_) == right_);
    if (on_fallback() || vector_.capacity() == 0) return;
    REQUIRE(get_access(vector_.data(), *peer_) == right_);
    REQUIRE(get_access(vector_.data() + vector_.capacity() - 1, *peer_) == right_);
  }

 private:
  void change(stream_ref stream) {
    const std::size_t size = model_.size();
    const std::size_t most = test_bytes(60'000 * sizeof(T), 100 * sizeof(T)) / sizeof(T);
    const std::size_t count = below(generator_, below(generator_, 4) == 0 ? most : 50);
    const T value = numbered<T>(below(generator_, 1000));
    const std::size_t index = below(generator_, size + 1);
    const auto place = model_.begin() + static_cast<std::ptrdiff_t>(index);
    switch (below(generator_, 22)) {
      case 0:
        vector_.push_back(value, stream);
        return model_.push_back(value);
      case 1: {
        const std::vector<T> block = series<T>(below(generator_, 1000), count);
        vector_.append(block, stream);
        model_.insert(model_.end(), block.begin(), block.end());
        return;
      }
      case 2: {
        const std::size_t length = std::min(count, size - index);
        vector_.append_from_device(vector_.span().subspan(index, length), stream);
        for (std::size_t i = 0; i < length; ++i) model_.push_back(T{model_[index + i]});
        return;
      }
      case 3:
        vector_.resize(size + count, stream);
        return model_.resize(size + count, T{});
      case 4:
        vector_.resize(size + count, value, stream);
        return model_.resize(size + count, value);
      case 5:
      case 6:
        keep_memory([&] {
          count % 2 == 0 ? vector_.resize(index, value, stream)
                         : vector_.resize_uninitialized(index);
        });
        return model_.resize(index);
      case 7:
        if (size == 0) return;
        keep_memory([&] { vector_.pop_back(); });
        return model_.pop_back();
      case 8:
        if (index == size) return;
        vector_.set_element(index, value, stream);
        model_[index] = value;
        REQUIRE(vector_.element(index, stream) == value);
        return;
      case 9: {
        const std::vector<T> block = series<T>(below(generator_, 1000), count);
        vector_.assign(block, stream);
        model_ = block;
        return;
      }
      case 10:
        vector_.assign(count, value, stream);
        return model_.assign(count, value);
      case 11:
        vector_.shrink_to_fit(stream, count % 2 == 0 ? tail_chunk::keep : tail_chunk::replace);
        return;
      case 12:
        vector_.erase_front(index, stream);
        model_.erase(model_.begin(), place);
        return;
      case 13: {
        growable_device_vector<T> copied = vector_.clone(stream);
        swap(vector_, copied);
        return;
      }
      case 14: {
        const std::vector<T> block = series<T>(below(generator_, 1000), count);
        vector_.insert(index, block, stream);
        model_.insert(place, block.begin(), block.end());
        return;
      }
      case 15:
        vector_.insert(index, count, value, stream);
        model_.insert(place, count, value);
        return;
      case 16: {
        const std::size_t first = below(generator_, size + 1);
        const auto from = model_.begin() + static_cast<std::ptrdiff_t>(first);
        const std::size_t length = std::min(count, size - first);
        const std::vector<T> own(from, from + static_cast<std::ptrdiff_t>(length));
        vector_.insert(index, vector_.span().subspan(first, length), stream);
        model_.insert(place, own.begin(), own.end());
        return;
      }
      case 17: {
        const std::size_t erased = std::min(count, size - index);
        vector_.erase(index, erased, stream);
        model_.erase(place, place + static_cast<std::ptrdiff_t>(erased));
        return;
      }
      case 18:
        if (!peer_) return;
        right_ = below(generator_, 2) == 0 ? access_right::none : peer_right();
        return vector_.grant(*peer_, right_);
      case 19:
        keep_memory([&] { vector_.clear(); });
        return model_.clear();
      case 20:
        vector_.resize_uninitialized(size + count);
        return vector_.resize_uninitialized(size);
      default:
        return vector_.reserve(size + count);
    }
  }
  /// Calls `shorten`, which must change neither the address nor the capacity.
  template <typename Shorten>
  void keep_memory(Shorten shorten) {
    const T* const data = vector_.data();
    const std::size_t capacity = vector_.capacity();
    shorten();
    REQUIRE(vector_.data() == data);
    REQUIRE(vector_.capacity() == capacity);
  }

  std::mt19937 generator_ = seeded_generator();
  stream_pool streams_;
  event previous_;
  std::optional<device_ref> peer_;
  std::optional<stream> of_peer_;
  access_right right_ = access_right::none;
  growable_device_vector<T> vector_;
  std::vector<T> model_;
};

TEST_CASE_TEMPLATE("growable_device_vector: random calls on several streams agree with std::vector",
                   T, element<1>, element<3>, element<5>, element<12>, element<24>, element<100>) {
  twins<T> subject{{}};
  subject.run(400);
}

TEST_CASE("growable_device_vector: random calls on another device agree with std::vector") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  twins<element12> subject{{}, second_device};
  subject.run(300);
}

TEST_CASE("growable_device_vector on a resource: random calls agree with std::vector") {
  mr::vmm_pool_resource pool{first_device};
  twins<element12> subject{{.resource = &pool}};
  subject.run(300);
}

TEST_CASE(
    "growable_device_vector: random calls past one maximum after another agree with std::vector") {
  for (const std::size_t granules : {1, 3, 8}) {
    CAPTURE(granules);
    twins<element<100>> subject{{.max_bytes = granules * granule()}};
    subject.run(150);
    // A chunk each, and elements that reach across their ends.
    twins<element300> in_granules{
        {.max_bytes = granules * granule(), .step_limit = 0, .granule_bytes = granule()}};
    in_granules.run(150);
  }
}

TEST_CASE("growable_device_vector: random calls with memory made ahead agree with std::vector") {
  for (const prefetch_level how : {prefetch_level::created, prefetch_level::mapped}) {
    for (const std::size_t max_bytes : {std::size_t{0}, granule()}) {
      twins<element<24>> subject{
          {.max_bytes = max_bytes, .granule_bytes = granule(), .grow_ahead = {how, 0, 2 * MiB}}};
      subject.run(200);
    }
  }
}

}  // namespace
}  // namespace hipvmm::test
