// SPDX-License-Identifier: MIT
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include "core/check.hpp"
#include "runtime/host/pinned_memory.hpp"
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// Runs `body`, which is to throw hip_error, checks that HIP's last error is none and that the text
/// has each of `parts`.
template <typename Body>
void check_text(Body body, std::initializer_list<std::string> parts) {
  std::optional<std::string> text;
  try {
    body();
  } catch (const hip_error& error) {
    text = error.what();
    const std::string begin = std::string{error.call()} + " failed: ";
    CHECK_MESSAGE(text->rfind(begin, 0) == 0, *text);
    CHECK(text->find("(" + std::to_string(error.code()) + ")") != std::string::npos);
  } catch (const unsupported& error) {
    text = error.what();  // before the call
  }
  REQUIRE(text);
  CHECK(hipPeekAtLastError() == hipSuccess);
  for (const std::string& part : parts)
    CHECK_MESSAGE(text->find(part) != std::string::npos, "no \"" << part << "\" in: " << *text);
}

std::string at(const void* address) { return detail::address_text(address); }

constexpr const char* not_backed = "is not backed by memory, or was freed";

TEST_CASE("copy_async: the text names the addresses, the bytes, the stream and its device") {
  const stream stream;
  const address_reservation nothing{granule()};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  check_text([&] { copy_async(stream, mapped.map.get(), nothing.get(), 64); },
             {"hipMemcpyAsync", "64 bytes", "from " + at(nothing.get()),
              "to " + at(mapped.map.get()) + " (memory of device 0)",
              "in stream " + at(stream.get()) + " of device 0"});
}

TEST_CASE("copy_async: a source and a destination that are not backed are named") {
  const stream stream;
  const address_reservation nothing{granule()};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  check_text([&] { copy_async(stream, mapped.map.get(), nothing.get(), 64); },
             {"the source " + at(nothing.get()) + " " + not_backed, "commit", "resume()"});
  check_text([&] { copy_async(stream, nothing.get(), mapped.map.get(), 64); },
             {"the destination " + at(nothing.get()) + " " + not_backed, "commit"});
}

TEST_CASE("copy_async: the first byte that is not backed is named") {
  const stream stream;
  const address_reservation two{2 * granule()};
  const physical_chunk chunk{first_device, granule()};
  const mapping first{two, 0, chunk};
  set_access(first.get(), first.bytes(), {first_device, access_right::read_write});
  byte_vector target(granule() + 8);
  check_text([&] { copy_async(stream, target.data(), first.get(), granule() + 8); },
             {"the source " + at(advance(two.get(), granule())) + " " + not_backed});
}

TEST_CASE("fill_async: the text names the bytes and the destination that is not backed") {
  const stream stream;
  const address_reservation nothing{granule()};
  check_text(
      [&] { fill_async(stream, nothing.get(), 1, 64); },
      {"hipMemsetAsync", "64 bytes", "the destination " + at(nothing.get()) + " " + not_backed});
  const std::array<unsigned char, 4> words{1, 2, 3, 4};
  check_text([&] { fill_pattern_async(stream, nothing.get(), words.data(), 4, 16); },
             {"hipMemsetD32Async", "64 bytes", not_backed});
  check_text([&] { fill_pattern_async(stream, nothing.get(), words.data(), 2, 16); },
             {"hipMemsetD16Async", "32 bytes", not_backed});
}

TEST_CASE("copy_async: memory of hipMalloc that was freed is named") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  void* freed = nullptr;
  REQUIRE(hipMalloc(&freed, 64) == hipSuccess);
  REQUIRE(hipFree(freed) == hipSuccess);
  // The host provider takes the address for one of the host's.
  const planned_fault refused{"hipMemcpyAsync", 1, hipErrorInvalidValue};
  check_text([&] { copy_async(stream, freed, mapped.map.get(), 64); },
             {"the destination " + at(freed) + " " + not_backed});
}

TEST_CASE("fill_async: a device without a right is named, and what to do") {
  const stream of_peer{second_device};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  check_text([&] { fill_async(of_peer, mapped.map.get(), 1, 64); },
             {"of device 1", "device 1 has no right to memory of device 0",
              "grant(device 1), or use a stream of device 0"});
  const byte_vector source(64);
  if (!quirks::owner_copies.holds())
    check_text([&] { copy_async(of_peer, mapped.map.get(), source.data(), 64); },
               {"device 1 has no right to memory of device 0: grant(device 1)"});
}

TEST_CASE("copy_async: a right to read only is named") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::read});
  const byte_vector source(64);
  check_text(
      [&] { copy_async(stream, mapped.map.get(), source.data(), 64); },
      {"device 0 may only read memory of device 0", "grant(device 0, access_right::read_write)"});
}

TEST_CASE("copy_async: where copies go by the owner, the owner without a right is named") {
  const stream of_peer{second_device};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::none});
  set_access(mapped.map.get(), mapped.map.bytes(), {second_device, access_right::read_write});
  byte_vector target(64);
  if (quirks::owner_copies.holds())
    check_text([&] { copy_async(of_peer, target.data(), mapped.map.get(), 64); },
               {"device 0 has no right to memory of device 0: grant(device 0)"});
  else
    CHECK_NOTHROW(copy_async(of_peer, target.data(), mapped.map.get(), 64));
}

TEST_CASE("copy_async: names the device of the other side if it copies and has no right") {
  const stream of_peer{second_device};
  const mapped_chunk source{physical_chunk{second_device, granule()}};
  const mapped_chunk target{physical_chunk{first_device, granule()}};
  set_access(target.map.get(), target.map.bytes(), {second_device, access_right::read_write});
  const detail::pinned_memory pinned{64};  // of the current device
  for (void* const to : {target.map.get(), pinned.get()}) {
    const auto copy = [&] { copy_async(of_peer, to, source.map.get(), 64); };
    if (capability_of(first_device).has(trait::peer_copies))
      CHECK_NOTHROW(copy());
    else
      check_text(copy, {"device 0 has no right to memory of device 1: grant(device 0)"});
  }
  of_peer.synchronize();
}

TEST_CASE("fill_async: a device without a link is named, and what to do") {
  const device_ref stranger{2};
  const stream of_stranger{stranger};
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  check_text([&] { fill_async(of_stranger, mapped.map.get(), 1, 64); },
             {"device 2 cannot reach memory of device 0", "use a stream of device 0"});
}

TEST_CASE("fill_async: memory of hipMalloc without peer access is named, and what to do") {
  const stream of_peer{second_device};
  const device_allocation memory{first_device, 64};
  const planned_fault refused{"hipMemsetAsync", 1, hipErrorInvalidValue};
  check_text([&] { fill_async(of_peer, memory.get(), 1, 64); },
             {"device 1 may have no right to memory of device 0", "hipDeviceEnablePeerAccess"});
}

TEST_CASE("copy_peer_async: memory of another device than the one named is named") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const mapped_chunk other{physical_chunk{second_device, granule()}};
  if (quirks::copies_need_no_right.holds()) {
    copy_peer_async(stream, other.map.get(), first_device, mapped.map.get(), first_device, 64);
    stream.synchronize();
    return;
  }
  check_text(
      [&] {
        copy_peer_async(stream, other.map.get(), first_device, mapped.map.get(), first_device, 64);
      },
      {"hipMemcpyPeerAsync",
       "the destination is memory of device 1 and not of device 0, as the call says"});
}

TEST_CASE("copy_async: a stream that was destroyed is named") {
  hipStream_t gone = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&gone, hipStreamNonBlocking) == hipSuccess);
  REQUIRE(hipStreamDestroy(gone) == hipSuccess);
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const byte_vector source(64);
  const std::string expected = "stream " + at(gone) + " does not exist: it was destroyed";
  check_text([&] { copy_async(stream_ref{gone}, mapped.map.get(), source.data(), 64); },
             {expected, "64 bytes"});
  check_text([&] { stream_ref{gone}.synchronize(); }, {expected});
  check_text([&] { static_cast<void>(stream_ref{gone}.is_done()); }, {expected});
  check_text([&] { static_cast<void>(stream_ref{gone}.is_capturing()); }, {expected});
  event recorded{first_device};
  check_text([&] { recorded.record(stream_ref{gone}); },
             {"event of device 0", "stream " + at(gone), "was destroyed or is another device's"});
  // Up to 6.4 a fill there ends the process.
  if (!quirks::success_clears_error.holds())
    check_text([&] { fill_async(stream_ref{gone}, mapped.map.get(), 1, 64); }, {expected});
}

TEST_CASE("event: the text of a recording in another device's stream names both") {
  const stream of_peer{second_device};
  event recorded{first_device};
  const planned_fault refused{"hipEventRecord", 1, hipErrorInvalidHandle};
  check_text([&] { recorded.record(of_peer); },
             {"event of device 0", "stream " + at(of_peer.get()), "is another device's"});
}

TEST_CASE("event: the text of a time between events of two devices names both") {
  event first{first_device, event_timing::enabled};
  event second{second_device, event_timing::enabled};
  first.record(stream{first_device});
  second.record(stream{second_device});
  second.synchronize();
  check_text([&] { static_cast<void>(event::elapsed(first, second)); },
             {"hipEventElapsedTime", "device 0", "device 1", "event_timing::enabled"});
}

TEST_CASE("physical_chunk: the text of a chunk on the host names the place and what to do") {
  const planned_fault refused{"hipMemCreate", 1, hipErrorInvalidValue};
  check_text(
      [] {
        physical_chunk{memory_location::host(), granule(), first_device};
      },
      {"hipMemCreate", "memory of the host", "on a device"});
}

TEST_CASE("copy_async: a failure in a captured stream does not cost the capture") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const address_reservation nothing{granule()};
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  {
    planned_fault fault{"hipMemcpyAsync", 1, hipErrorInvalidValue};
    check_text([&] { copy_async(stream, mapped.map.get(), nothing.get(), 64); },
               {"64 bytes", "is captured"});
  }
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  CHECK(hipStreamIsCapturing(stream.get(), &status) == hipSuccess);
  CHECK(status == hipStreamCaptureStatusActive);
  end_capture(stream.get());
}

TEST_CASE("copy_async: where HIP says nothing the text has what was asked") {
  const stream stream;
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const byte_vector source(64);
  for (const char* silent : {"hipStreamIsCapturing", "hipPointerGetAttributes", "hipMemGetAccess",
                             "hipMemGetAddressRange", "hipGetStreamDeviceId"}) {
    CAPTURE(silent);
    const planned_faults faults{"hipMemcpyAsync nth=1 error=hipErrorUnknown; " +
                                std::string{silent} + " nth=1 error=hipErrorUnknown"};
    check_text([&] { copy_async(stream, mapped.map.get(), source.data(), 64); },
               {"64 bytes", "from " + at(source.data()), "to " + at(mapped.map.get())});
  }
}

TEST_CASE("mapping: the text of a second mapping names what is there") {
  static const address_reservation& reservation = *new address_reservation{4 * granule()};
  const physical_chunk chunk{first_device, granule()};
  const mapping map{reservation, granule(), chunk};
  set_access(map.get(), map.bytes(), {first_device, access_right::read_write});
  const physical_chunk other{first_device, 2 * granule()};
  check_text(
      [&] {
        const mapping again{reservation, granule(), chunk, map_check::verified};
      },
      {"hipMemMap", std::to_string(granule()) + " bytes", at(map.get()), "device 0",
       "is mapped already", "unmap"});
  check_text(
      [&] {
        const mapping across{reservation, 0, other, map_check::verified};
      },
      {"at " + at(reservation.get()), "is mapped already"});
}

TEST_CASE("set_access, get_access: the text names bytes that are not backed") {
  const address_reservation nothing{granule()};
  check_text([&] { static_cast<void>(get_access(nothing.get(), first_device)); },
             {"hipMemGetAccess", at(nothing.get()), "nothing is mapped"});
  check_text(
      [&] {
        set_access(nothing.get(), granule(), {first_device, access_right::read});
      },
      {"hipMemSetAccess", std::to_string(granule()) + " bytes", at(nothing.get()),
       "nothing is mapped", "device 0"});
}

TEST_CASE("set_access: a device without a link to the memory is named, and what to do") {
  const mapped_chunk mapped{physical_chunk{first_device, granule()}};
  const access_desc stranger{device_ref{2}, access_right::read_write};
  check_text([&] { set_access(mapped.map.get(), granule(), stranger); },
             {"device 2 cannot reach the memory of device 0", "copy instead"});
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
