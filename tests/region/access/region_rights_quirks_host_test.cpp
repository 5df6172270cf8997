// SPDX-License-Identifier: MIT
// Rights of single chunks if HIP takes a range only as long as the first mappings together
// (quirk::access_from_base), and of devices that do not all reach each other.
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

constexpr const char* only_from_base = "tail_access=no,base_access=yes";

access_list peer_with(access_right right) { return {{second_device, right}}; }

/// Whether HIP and `target` agree on the right of the peer to the granules at `indexes`.
bool peer_has(const region& target, std::initializer_list<std::size_t> indexes,
              access_right right) {
  for (const std::size_t index : indexes) {
    const std::size_t offset = index * granule();
    if (target.rights_at(offset).get(second_device) != right ||
        get_access(advance(target.base(), offset), second_device) != right)
      return false;
  }
  return true;
}

HIPVMM_TEST_CASE_IN("region: where tail access fails chunks of one size have rights of their own",
                    under("rocm-7.1", only_from_base)) {
  region target{first_device, 16 * granule()};
  target.set_access(peer_with(access_right::read));
  for (const std::size_t index : {0U, 1U, 2U, 3U}) target.commit(index * granule(), granule());
  const call_counter calls{"hipMemSetAccess"};
  target.set_access(granule(), 2 * granule(), {});
  CHECK(calls.count() == 1);
  CHECK(peer_has(target, {0, 3}, access_right::read));
  CHECK(peer_has(target, {1, 2}, access_right::none));
  // Neighbours of it are granted by themselves, and behind a hole too.
  target.commit(4 * granule(), granule());
  target.commit(7 * granule(), granule());
  target.move_chunk(3 * granule(), 5 * granule());
  CHECK(peer_has(target, {0, 4, 5, 7}, access_right::read));
  CHECK(peer_has(target, {1, 2}, access_right::none));
  target.end_move(3 * granule());
  // Another size could be granted together with its neighbours only.
  CHECK_THROWS_WITH_AS(target.commit(8 * granule(), 2 * granule()),
                       doctest::Contains("commit in steps of one size"), unsupported);
  target.set_access(peer_with(access_right::read_write));
  CHECK(peer_has(target, {0, 1, 2, 4, 5, 7}, access_right::read_write));
}

HIPVMM_TEST_CASE_IN(
    "region: where tail access fails neighbours of several sizes share their rights",
    under("rocm-7.1", only_from_base)) {
  region target{first_device, 16 * granule()};
  target.commit(0, 2 * granule());
  target.commit(2 * granule(), granule());
  target.commit(3 * granule(), 4 * granule());
  const call_counter calls{"hipMemSetAccess"};
  target.set_access(peer_with(access_right::read));
  CHECK(calls.count() == 1);
  CHECK_THROWS_WITH_AS(
      target.set_access(2 * granule(), granule(), peer_with(access_right::read_write)),
      doctest::Contains("beside chunks of other sizes"), unsupported);
  CHECK(peer_has(target, {0, 1, 2, 3, 6}, access_right::read));
  // All together have no neighbours.
  target.set_access(0, 7 * granule(), peer_with(access_right::read_write));
  CHECK(target.access(second_device) == access_right::read);
  CHECK(peer_has(target, {0, 1, 2, 3, 6}, access_right::read_write));
  // A smaller chunk could not be granted.
  const stream stream;
  CHECK(target.trim(4 * granule(), stream, tail_chunk::replace) == 0);
}

constexpr device_ref third_device{2};

/// Surroundings in which the first device reaches both others, which do not reach each other.
std::vector<std::string> first_in_the_middle() {
  return {"HIPVMM_HOST_DEVICES=3", "HIPVMM_HOST_PEERS=0-1,0-2"};
}

/// Two chunks of the first device, which the second may use.
struct chunks_of_first : region_of<8> {
  chunks_of_first() {
    region.grant(second_device);
    region.commit(0, unit);
    region.commit(unit, unit);
  }
  /// Moves one of them to `target`. Returns the bytes that moved.
  std::size_t move(std::size_t index, device_ref target) {
    return region.move_range(index * unit, unit, target, stream);
  }
};

HIPVMM_TEST_CASE_IN("region: devices whose memory is gone restrict no rights",
                    first_in_the_middle()) {
  chunks_of_first both;
  region& subject = both.region;
  both.move(1, second_device);
  CHECK_THROWS_AS(subject.grant(third_device), unsupported);
  subject.revoke(second_device);
  subject.decommit(both.unit, both.unit);
  subject.grant(third_device);
  CHECK(subject.access(third_device) == access_right::read_write);
}

HIPVMM_TEST_CASE_IN("region: rights of no bytes change nothing", first_in_the_middle()) {
  chunks_of_first both;
  region& subject = both.region;
  subject.set_access(0, 0, {{third_device, access_right::read}});
  CHECK(both.move(0, second_device) == both.unit);
}

HIPVMM_TEST_CASE_IN("region: rights of one chunk do not keep others from another device",
                    first_in_the_middle()) {
  chunks_of_first both;
  region& subject = both.region;
  subject.set_access(0, both.unit, {{third_device, access_right::read}});
  CHECK(both.move(1, second_device) == both.unit);
  CHECK(get_access(subject.base(), third_device) == access_right::read);
  // Its own chunk stays on a device that the third one reaches.
  CHECK_THROWS_AS(both.move(0, second_device), std::invalid_argument);
  subject.set_access(0, both.unit,
                     {{second_device, access_right::read}, {third_device, access_right::read}});
  CHECK_THROWS_WITH_AS(both.move(0, second_device),
                       doctest::Contains("device 2 cannot reach the memory of device 1"),
                       unsupported);
  CHECK(subject.chunks().front().device == first_device);
}

HIPVMM_TEST_CASE_IN("region: rights of one chunk are not restricted by where others are",
                    first_in_the_middle()) {
  chunks_of_first both;
  region& subject = both.region;
  both.move(1, second_device);
  subject.set_access(0, both.unit, {{third_device, access_right::read}});
  CHECK(get_access(subject.base(), third_device) == access_right::read);
  CHECK_THROWS_WITH_AS(
      subject.set_access(both.unit, both.unit, {{third_device, access_right::read}}),
      doctest::Contains("device 2 cannot reach the memory of device 1"), unsupported);
  CHECK(subject.rights_at(both.unit).get(third_device) == access_right::none);
}

HIPVMM_TEST_CASE_IN("region: a chunk's own rights forget devices whose memory is gone",
                    first_in_the_middle()) {
  chunks_of_first both;
  region& subject = both.region;
  both.move(1, second_device);
  subject.set_access(0, both.unit, {{second_device, access_right::read}});
  CHECK(both.move(1, first_device) == both.unit);
  subject.grant(third_device);
  CHECK(subject.rights_at(0).get(third_device) == access_right::read_write);
  CHECK(get_access(subject.base(), third_device) == access_right::read_write);
}

HIPVMM_TEST_CASE_IN("region: what moves the region waits for no device whose rights have ended",
                    first_in_the_middle()) {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  { const scoped_device used{third_device}; }  // on CUDA there is no wait for one without a context
  const std::size_t unit = granule();
  region subject{first_device, 8 * unit};
  subject.commit(0, unit);
  subject.commit(unit, unit);
  const auto waits = [&] {
    const address_reservation blocker{unit, 0, advance(subject.base(), subject.max_bytes())};
    const calls_of waited{device_waiting_functions};
    CHECK(subject.extend(2 * subject.max_bytes(), 0));
    return waited.count();
  };
  const std::uint64_t alone = waits();
  subject.set_access(unit, unit, {{third_device, access_right::read}});
  CHECK(waits() == 2 * alone);
  subject.set_access(unit, unit, {});
  CHECK(waits() == alone);
  // The same holds if the chunk itself ends.
  subject.set_access(unit, unit, {{third_device, access_right::read}});
  subject.decommit(unit, unit);
  CHECK(waits() == alone);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
