// SPDX-License-Identifier: MIT
#include <hipvmm/testing/resource_contract.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw contract_violation{"the resource breaks its contract: " + what};
}

void demand(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

// A device that may use memory uses it in stream order; the host uses other memory, behind the
// stream's work.
void write(const memory_resource& from, stream_ref stream, void* pointer, unsigned char value,
           std::size_t bytes) {
  if (from.is_device_accessible()) return fill_async(stream, pointer, value, bytes);
  stream.synchronize();
  std::memset(pointer, value, bytes);
}

std::vector<unsigned char> read(const memory_resource& from, stream_ref stream, const void* pointer,
                                std::size_t bytes) {
  std::vector<unsigned char> result(bytes);
  if (from.is_device_accessible()) {
    copy(stream, result.data(), pointer, bytes);
  } else {
    stream.synchronize();
    std::memcpy(result.data(), pointer, bytes);
  }
  return result;
}

/// Memory of the resource under test, released in the stream it is used in last.
class block {
 public:
  block(memory_resource& from, stream_ref stream, std::size_t bytes,
        std::size_t alignment = memory_resource::default_alignment)
      : from_{from}, stream_{stream}, bytes_{bytes}, alignment_{alignment} {
    pointer_ = from.allocate(stream, bytes, alignment);
    demand(pointer_ != nullptr, "allocate gave nullptr for " + std::to_string(bytes) + " bytes");
  }
  ~block() { from_.deallocate(stream_, pointer_, bytes_, alignment_); }
  block& operator=(block&&) = delete;

  /// Later uses of the memory are ordered in `stream`.
  void set_stream(stream_ref stream) noexcept { stream_ = stream; }
  void fill(unsigned char value) const { write(from_, stream_, pointer_, value, bytes_); }
  void demand_all(unsigned char value) const {
    const std::vector<unsigned char> host = read(from_, stream_, pointer_, bytes_);
    const auto wrong =
        std::find_if(host.begin(), host.end(), [value](auto byte) { return byte != value; });
    if (wrong != host.end())
      fail("byte " + std::to_string(wrong - host.begin()) + " of a block of " +
           std::to_string(bytes_) + " bytes holds " + std::to_string(*wrong) + " instead of " +
           std::to_string(value) + ", which was written in the block's stream");
  }

  [[nodiscard]] void* get() const noexcept { return pointer_; }
  [[nodiscard]] std::uintptr_t address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  memory_resource& from_;
  stream_ref stream_;
  std::size_t bytes_;
  std::size_t alignment_;
  void* pointer_ = nullptr;
};

constexpr std::initializer_list<std::size_t> small_sizes{1,    2,    255,   256,      257,
                                                         4096, 5000, 65536, 1'000'000};

std::vector<std::size_t> sizes_of(const contract_subject& subject) {
  std::vector<std::size_t> result;
  for (const std::size_t size : small_sizes)
    if (size <= subject.largest_bytes) result.push_back(size);
  result.push_back(subject.largest_bytes);
  return result;
}

void no_bytes_are_nullptr(const contract_subject& subject) {
  const stream used{subject.device};
  demand(subject.resource.allocate(used, 0) == nullptr, "allocate of 0 bytes gave an address");
  demand(subject.resource.allocate_sync(0) == nullptr, "allocate_sync of 0 bytes gave an address");
  subject.resource.deallocate(used, nullptr, 0);
  subject.resource.deallocate_sync(nullptr, 0);
}

void wrong_alignments_are_refused(const contract_subject& subject) {
  const stream used{subject.device};
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{384}}) {
    bool refused = false;
    try {
      subject.resource.deallocate(used, subject.resource.allocate(used, 64, alignment), 64);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    demand(refused, "the alignment " + std::to_string(alignment) + " was not refused");
  }
}

void addresses_are_aligned(const contract_subject& subject) {
  const stream used{subject.device};
  for (std::size_t alignment = 1; alignment <= subject.largest_alignment; alignment *= 2) {
    for (const std::size_t size : {1, 300, 5000}) {
      const block first{subject.resource, used, size, alignment};
      const block second{subject.resource, used, size, alignment};
      for (const block* each : {&first, &second})
        demand(each->address() % std::max(alignment, std::size_t{1}) == 0,
               "an address is no multiple of the alignment " + std::to_string(alignment));
    }
  }
}

void memory_keeps_what_is_written(const contract_subject& subject) {
  const stream used{subject.device};
  unsigned char value = 1;
  for (const std::size_t size : sizes_of(subject)) {
    const block one{subject.resource, used, size};
    one.fill(value);
    one.demand_all(value++);
  }
}

void living_blocks_are_apart(const contract_subject& subject) {
  const stream used{subject.device};
  std::vector<std::unique_ptr<block>> blocks;
  std::size_t total = 0;
  for (const std::size_t size : small_sizes) {
    for (int twice = 0; twice < 2 && total + size <= subject.largest_bytes / 2; ++twice) {
      blocks.push_back(std::make_unique<block>(subject.resource, used, size));
      total += size;
    }
  }
  std::vector<const block*> order;
  for (const auto& each : blocks) order.push_back(each.get());
  std::sort(order.begin(), order.end(),
            [](const block* a, const block* b) { return a->address() < b->address(); });
  for (std::size_t i = 1; i < order.size(); ++i)
    demand(order[i - 1]->address() + order[i - 1]->bytes() <= order[i]->address(),
           "two blocks overlap that live at the same time");
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i]->fill(static_cast<unsigned char>(i));
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i]->demand_all(static_cast<unsigned char>(i));
}

void memory_is_used_again(const contract_subject& subject) {
  const stream used{subject.device};
  for (int round = 0; round < 40; ++round) {
    const block one{subject.resource, used, subject.largest_bytes};
    const auto value = static_cast<unsigned char>(round);
    write(subject.resource, used, one.get(), value, std::min<std::size_t>(one.bytes(), 4096));
  }
  used.synchronize();
}

void sync_memory_serves_all_streams(const contract_subject& subject) {
  constexpr std::size_t bytes = 5000;
  const stream first{subject.device};
  const stream second{subject.device};
  for (const stream* used : {&first, &second}) {
    void* const pointer = subject.resource.allocate_sync(bytes);
    demand(pointer != nullptr, "allocate_sync gave nullptr");
    write(subject.resource, *used, pointer, 7, bytes);
    used->synchronize();
    subject.resource.deallocate_sync(pointer, bytes);
  }
}

void both_ways_back_are_open(const contract_subject& subject) {
  constexpr std::size_t bytes = 5000;
  const stream used{subject.device};
  for (int round = 0; round < 3; ++round) {
    void* const ordered = subject.resource.allocate(used, bytes);
    write(subject.resource, used, ordered, 1, bytes);
    used.synchronize();
    subject.resource.deallocate_sync(ordered, bytes);
    void* const at_once = subject.resource.allocate_sync(bytes);
    write(subject.resource, used, at_once, 2, bytes);
    subject.resource.deallocate(used, at_once, bytes);
  }
  used.synchronize();
}

void memory_goes_from_stream_to_stream(const contract_subject& subject) {
  const stream first{subject.device};
  const stream second{subject.device};
  for (const std::size_t size : sizes_of(subject)) {
    block one{subject.resource, first, size};
    one.fill(9);
    event filled{subject.device};
    filled.record(first);
    second.wait(filled);
    one.set_stream(second);
    one.demand_all(9);
  }
  first.synchronize();
  second.synchronize();
}

// A late fill shows the fault: if the memory serves another stream too early, it falls into the
// block of that stream. Several blocks, because a resource may use older ones first.
void other_streams_come_after_the_work(const contract_subject& subject) {
  constexpr std::size_t bytes = 3000;
  constexpr std::size_t count = 8;
  for (const bool stream_named : {true, false}) {
    const stream first{subject.device};
    const stream second{subject.device};
    host_task(first, [] { std::this_thread::sleep_for(std::chrono::milliseconds{20}); });
    std::vector<void*> freed;
    for (std::size_t i = 0; i < count; ++i)
      freed.push_back(subject.resource.allocate(first, bytes));
    for (void* const each : freed) write(subject.resource, first, each, 1, bytes);
    for (void* const each : freed) {
      if (stream_named)
        subject.resource.deallocate(first, each, bytes);
      else
        subject.resource.deallocate_sync(each, bytes);
    }
    std::vector<std::unique_ptr<block>> others;
    for (std::size_t i = 0; i < count; ++i)
      others.push_back(std::make_unique<block>(subject.resource, second, bytes));
    for (const auto& each : others) each->fill(2);
    second.synchronize();
    first.synchronize();
    for (const auto& each : others) {
      const std::vector<unsigned char> found = read(subject.resource, second, each->get(), bytes);
      demand(std::all_of(found.begin(), found.end(), [](auto byte) { return byte == 2; }),
             std::string{"memory that "} + (stream_named ? "deallocate" : "deallocate_sync") +
                 " took back served another stream before the work of the first stream was done; "
                 "let the other stream wait for an event of the first, or keep the memory until "
                 "then");
    }
  }
}

void what_cannot_be_is_bad_alloc(const contract_subject& subject) {
  const stream used{subject.device};
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most / 2}) {
    bool refused = false;
    try {
      subject.resource.deallocate(used, subject.resource.allocate(used, bytes), bytes);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    demand(refused, std::to_string(bytes) + " bytes were not refused with std::bad_alloc");
  }
  const block after{subject.resource, used, 5000};
  after.fill(3);
  after.demand_all(3);
}

void threads_do_not_meet(const contract_subject& subject) {
  constexpr int threads = 4;
  const auto work = [&subject](int thread) {
    const stream used{subject.device};
    for (int round = 0; round < 20; ++round) {
      const std::size_t bytes = 1 + static_cast<std::size_t>(round * 977 + thread * 131);
      const block one{subject.resource, used, bytes};
      const block two{subject.resource, used, 2 * bytes};
      one.fill(static_cast<unsigned char>(1 + thread));
      two.fill(static_cast<unsigned char>(101 + thread));
      one.demand_all(static_cast<unsigned char>(1 + thread));
      two.demand_all(static_cast<unsigned char>(101 + thread));
    }
  };
  std::vector<std::future<void>> running;
  for (int thread = 0; thread < threads; ++thread)
    running.push_back(std::async(std::launch::async, work, thread));
  for (auto& each : running) each.wait();
  for (auto& each : running) each.get();
}

void host_uses_what_it_may(const contract_subject& subject) {
  const memory_resource& resource = subject.resource;
  demand(resource.is_device_accessible() || resource.is_host_accessible(),
         "neither the host nor a device may use the memory");
  if (!resource.is_host_accessible()) return;
  const stream used{subject.device};
  const block one{subject.resource, used, 5000};
  used.synchronize();
  std::memset(one.get(), 5, one.bytes());
  one.demand_all(5);
  one.fill(6);
  used.synchronize();
  const auto* const bytes = static_cast<const unsigned char*>(one.get());
  demand(std::all_of(bytes, bytes + one.bytes(), [](auto byte) { return byte == 6; }),
         "the host does not see through the address what was written in the stream");
}

void equals_itself(const contract_subject& subject) {
  demand(subject.resource.is_equal(subject.resource), "it is not equal to itself");
}

}  // namespace

const std::vector<contract_rule>& resource_contract() {
  static const std::vector<contract_rule> rules{
      {"no bytes are nullptr, and giving that back does nothing", no_bytes_are_nullptr},
      {"an alignment that is no power of two is refused", wrong_alignments_are_refused},
      {"addresses are multiples of the alignment", addresses_are_aligned},
      {"memory keeps what is written in its stream", memory_keeps_what_is_written},
      {"blocks that live at the same time do not overlap", living_blocks_are_apart},
      {"memory released is used again", memory_is_used_again},
      {"allocate_sync gives memory that every stream may use", sync_memory_serves_all_streams},
      {"memory goes back by either way, however it was got", both_ways_back_are_open},
      {"memory may go from one stream to another", memory_goes_from_stream_to_stream},
      {"memory serves another stream only after the work that uses it",
       other_streams_come_after_the_work},
      {"more than there is ends in std::bad_alloc and changes nothing",
       what_cannot_be_is_bad_alloc},
      {"the host uses memory that it may use, and somebody may", host_uses_what_it_may},
      {"threads may use it at the same time", threads_do_not_meet},
      {"it is equal to itself", equals_itself}};
  return rules;
}

void verify_resource(const contract_subject& subject) {
  for (const contract_rule& rule : resource_contract()) rule.verify(subject);
}

}  // namespace hipvmm::mr
