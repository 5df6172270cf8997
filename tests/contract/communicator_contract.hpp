// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/exchange.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/test.hpp"

// The rules of every communicator. Each function is called by all ranks, in the same order.
namespace hipvmm::contract {

inline std::vector<unsigned char> on_host(const growable_device_vector<unsigned char>& from,
                                          stream_ref stream) {
  std::vector<unsigned char> result(from.size());
  if (!result.empty()) copy(stream, result.data(), from.data(), result.size());
  return result;
}

/// Bytes that rank `from` sends to rank `to`: none, few, or some 100 KiB.
inline std::size_t bytes_between(int from, int to) {
  const int kind = (from * 3 + to * 5) % 4;
  return kind == 0   ? 0
         : kind == 1 ? static_cast<std::size_t>(from + 1)
                     : static_cast<std::size_t>(from * 7 + to * 11 + 100) * 1000U;
}
inline unsigned char byte_between(int from, int to, int round) {
  return static_cast<unsigned char>(1 + from * 16 + to + round * 3);
}

inline void check_names(const communicator& ranks) {
  CHECK(ranks.rank() >= 0);
  CHECK(ranks.rank() < ranks.size());
  CHECK(!ranks.describe().empty());
  CHECK(ranks.describe().find('\n') == std::string::npos);
}

inline void check_all_gather(communicator& ranks) {
  const int size = ranks.size();
  for (const std::size_t count : {1U, 3U, 20000U}) {
    const std::vector<int> mine(count, ranks.rank() * 10 + static_cast<int>(count));
    std::vector<int> all(count * static_cast<std::size_t>(size), -1);
    ranks.all_gather(mine.data(), all.data(), count * sizeof(int));
    int wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      wrong += all[i] != static_cast<int>(i / count) * 10 + static_cast<int>(count) ? 1 : 0;
    CHECK(wrong == 0);
  }
  ranks.all_gather(nullptr, nullptr, 0);
}

inline void check_all_to_all(communicator& ranks) {
  const int size = ranks.size();
  for (const std::size_t count : {1U, 2U, 5000U}) {
    std::vector<int> mine(count * static_cast<std::size_t>(size));
    std::vector<int> theirs(mine.size(), -1);
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = ranks.rank() * 100 + static_cast<int>(i / count);
    ranks.all_to_all(mine.data(), theirs.data(), count * sizeof(int));
    int wrong = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i)
      wrong += theirs[i] != static_cast<int>(i / count) * 100 + ranks.rank() ? 1 : 0;
    CHECK(wrong == 0);
  }
}

/// Pieces of different lengths between all ranks, the own one included; sources are written in the
/// stream before the call and changed in it afterwards, with no wait of the host.
inline void check_transfer(communicator& ranks) {
  const int own = ranks.rank();
  const int size = ranks.size();
  const stream stream{ranks.device()};
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int other = 0; other < size; ++other) {
    sent += bytes_between(own, other);
    received += bytes_between(other, own);
  }
  growable_device_vector<unsigned char> source{ranks.device()};
  growable_device_vector<unsigned char> target{ranks.device()};
  source.resize(sent + 1, 0, stream);
  for (int round = 0; round < 3; ++round) {
    target.clear();
    target.resize(received + 1, 0xEE, stream);
    std::vector<outgoing> out;
    std::vector<incoming> in;
    std::vector<unsigned char> expected;
    std::size_t at = 0;
    for (int other = 0; other < size; ++other) {
      const std::size_t to = bytes_between(own, other);
      if (to != 0) fill_async(stream, source.data() + at, byte_between(own, other, round), to);
      // None is none: both ends name a piece of no bytes, or both leave it out.
      if (to != 0 || round == 0) out.push_back({other, source.data() + at, to});
      at += to;
    }
    for (int other = 0; other < size; ++other) {
      const std::size_t from = bytes_between(other, own);
      if (from != 0 || round == 0) in.push_back({other, target.data() + expected.size(), from});
      expected.insert(expected.end(), from, byte_between(other, own, round));
    }
    expected.push_back(0xEE);
    ranks.transfer(out, in, stream);
    fill_async(stream, source.data(), 0, sent + 1);
    CHECK(on_host(target, stream) == expected);
  }
  ranks.transfer({}, {}, stream);
}

/// Each rank sends to one rank only: to the next.
inline void check_ring(communicator& ranks) {
  const stream stream{ranks.device()};
  const int next = (ranks.rank() + 1) % ranks.size();
  const int last = (ranks.rank() + ranks.size() - 1) % ranks.size();
  growable_device_vector<unsigned char> token{ranks.device()};
  growable_device_vector<unsigned char> came{ranks.device()};
  token.resize(1000, static_cast<unsigned char>(ranks.rank()), stream);
  came.resize(1000, 0xFF, stream);
  for (int i = 0; i < ranks.size(); ++i) {
    ranks.transfer({{next, token.data(), 1000}}, {{last, came.data(), 1000}}, stream);
    copy_async(stream, token.data(), came.data(), 1000);
  }
  CHECK(on_host(token, stream) ==
        std::vector<unsigned char>(1000, static_cast<unsigned char>(ranks.rank())));
}

/// A default stream is that of the rank's device, even if another device is current.
inline void check_default_stream(communicator& ranks) {
  const std::size_t bytes = 1000;
  const int next = (ranks.rank() + 1) % ranks.size();
  const int last = (ranks.rank() + ranks.size() - 1) % ranks.size();
  growable_device_vector<unsigned char> source{ranks.device()};
  growable_device_vector<unsigned char> target{ranks.device()};
  const stream_ref by_default = stream_ref::legacy_default();
  {
    const stream stream{ranks.device()};
    source.resize(bytes, 1, stream);
    target.resize(bytes, 2, stream);
    stream.synchronize();
  }
  const scoped_device own{ranks.device()};
  host_task(by_default, [] { std::this_thread::sleep_for(std::chrono::milliseconds{20}); });
  fill_async(by_default, source.data(), 7, bytes);
  {
    const scoped_device other{device_ref{(ranks.device().ordinal() + 1) % device_count()}};
    ranks.transfer({{next, source.data(), bytes}}, {{last, target.data(), bytes}}, by_default);
  }
  CHECK(on_host(target, by_default) == std::vector<unsigned char>(bytes, 7));
}

/// Elements that rank `from` sends to rank `to` in a round.
inline std::size_t elements_between(int from, int to, int round) {
  return static_cast<std::size_t>((from * 5 + to * 3 + round) % 4) *
         static_cast<std::size_t>(1 + round * round * 400);
}

/// Counts and growth that differ from rank to rank and from round to round.
inline void check_exchange(communicator& ranks) {
  const int own = ranks.rank();
  const int size = ranks.size();
  const stream stream{ranks.device()};
  growable_device_vector<unsigned> received{ranks.device()};
  std::vector<unsigned> expected;
  for (int round = 0; round < 3; ++round) {
    std::vector<unsigned> mine;
    std::vector<std::size_t> counts;
    for (int other = 0; other < size; ++other) {
      counts.push_back(elements_between(own, other, round));
      mine.insert(mine.end(), counts.back(), static_cast<unsigned>(own * 100 + other));
      expected.insert(expected.end(), elements_between(other, own, round),
                      static_cast<unsigned>(other * 100 + own));
    }
    growable_device_vector<unsigned> source{ranks.device()};
    source.append(mine, stream);
    const exchange_result came = exchange(source, counts, received, ranks, stream);
    source.assign(source.size(), 0U, stream);
    CHECK(came.offsets.back() == expected.size());
    CHECK(received.copy_to_host(stream) == expected);
  }
}

/// Arrays of elements of 1, 4 and 12 bytes that go by the same counts.
inline void check_exchange_of_arrays(communicator& ranks) {
  const int own = ranks.rank();
  using point = std::array<int, 3>;
  const stream stream{ranks.device()};
  growable_device_vector<char> tags{ranks.device()};
  growable_device_vector<int> ids{ranks.device()};
  growable_device_vector<point> points{ranks.device()};
  std::vector<int> expected;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> mine;
    std::vector<std::size_t> counts;
    for (int other = 0; other < ranks.size(); ++other) {
      counts.push_back(elements_between(own, other, round));
      mine.insert(mine.end(), counts.back(), own * 8 + other);
      expected.insert(expected.end(), elements_between(other, own, round), other * 8 + own);
    }
    growable_device_vector<char> own_tags{ranks.device()};
    growable_device_vector<int> own_ids{ranks.device()};
    growable_device_vector<point> own_points{ranks.device()};
    own_tags.append(std::vector<char>(mine.begin(), mine.end()), stream);
    own_ids.append(mine, stream);
    std::vector<point> host_points;
    for (const int each : mine) host_points.push_back({each, -each, each + 1});
    own_points.append(host_points, stream);
    const std::size_t before = ids.size();
    const exchange_result came =
        exchange({{own_tags, tags}, {own_ids, ids}, {own_points, points}}, counts, ranks, stream);
    own_tags.assign(mine.size(), 0, stream);
    CHECK(came.offsets.front() == before);
    CHECK(came.offsets.back() == expected.size());
  }
  std::vector<point> expected_points;
  for (const int each : expected) expected_points.push_back({each, -each, each + 1});
  CHECK(tags.copy_to_host(stream) == std::vector<char>(expected.begin(), expected.end()));
  CHECK(ids.copy_to_host(stream) == expected);
  CHECK(points.copy_to_host(stream) == expected_points);
}

/// Rank 0 has no memory for the messages: all throw, nothing has changed, and all go on.
inline void check_exchange_without_memory(communicator& ranks) {
  if (ranks.size() == 1) return;
  const stream stream{ranks.device()};
  growth_options options;
  if (ranks.rank() == 0) {
    options.max_bytes = 1;
    options.past_max = past_max_size::refuse;
  }
  growable_device_vector<unsigned char> received{ranks.device(), options};
  growable_device_vector<unsigned char> source{ranks.device()};
  const std::size_t piece = 4 * MiB;
  source.resize(piece, 1, stream);
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks.size()), 0);
  counts[0] = piece;
  const auto call = [&] { static_cast<void>(exchange(source, counts, received, ranks, stream)); };
  try {
    call();
    FAIL_CHECK("no error");
  } catch (const rank_error& error) {
    CHECK(ranks.rank() != 0);
    CHECK(error.reason() == rank_failure::remote);
    CHECK(error.rank() == 0);
    CHECK(std::string{error.what()}.find("rank 0 could not take part in exchange(): ") == 0);
  } catch (const std::length_error&) {
    CHECK(ranks.rank() == 0);
  }
  CHECK(received.empty());
  check_exchange(ranks);
}

/// Rank 0 gathers while the others exchange: all are refused, and all go on.
inline void check_other_exchange(communicator& ranks) {
  if (ranks.size() == 1) return;
  const stream stream{ranks.device()};
  growable_device_vector<int> received{ranks.device()};
  growable_device_vector<int> source{ranks.device()};
  source.resize(static_cast<std::size_t>(ranks.size()), 1, stream);
  const std::vector<std::size_t> counts(static_cast<std::size_t>(ranks.size()), 1);
  try {
    if (ranks.rank() == 0)
      static_cast<void>(gather(source, received, 0, ranks, stream));
    else
      static_cast<void>(exchange(source, counts, received, ranks, stream));
    FAIL_CHECK("no error");
  } catch (const rank_error& error) {
    CHECK(error.reason() == rank_failure::refused);
  }
  CHECK(received.empty());
  check_exchange(ranks);
}

inline void check_communicator(communicator& ranks) {
  check_names(ranks);
  check_all_gather(ranks);
  check_all_to_all(ranks);
  check_transfer(ranks);
  check_ring(ranks);
  check_default_stream(ranks);
  check_exchange(ranks);
  check_exchange_of_arrays(ranks);
  check_exchange_without_memory(ranks);
  check_other_exchange(ranks);
  check_all_gather(ranks);
}

/// `tries`: of several calls one must end in time, because a busy machine may hold up the others.
template <typename Call>
void check_ends_by_rank_error(Call call, std::chrono::milliseconds within, int tries = 1) {
  bool is_in_time = false;
  for (; !is_in_time && tries != 0; --tries) {
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(call(), rank_error);
    is_in_time = std::chrono::steady_clock::now() - start < within;
  }
  CHECK(is_in_time);
}

/// Rank 0 leaves, the others find that within the limit, and each later call throws too. `limit`
/// is that of the communicator.
inline void check_absent_rank(communicator& ranks, std::chrono::milliseconds limit) {
  if (ranks.rank() == 0) return;
  const int mine = 1;
  std::vector<int> all(static_cast<std::size_t>(ranks.size()));
  const auto call = [&] { ranks.all_gather(&mine, all.data(), sizeof(int)); };
  check_ends_by_rank_error(call, limit + std::chrono::seconds{10});
  check_ends_by_rank_error(call, limit, 5);
  check_ends_by_rank_error([&] { ranks.all_to_all(all.data(), all.data(), 0); }, limit, 5);
}

/// Rank 0 calls another function than the others.
inline void check_other_function(communicator& ranks, std::chrono::milliseconds limit) {
  std::vector<int> mine(static_cast<std::size_t>(ranks.size()));
  std::vector<int> all(mine.size());
  check_ends_by_rank_error(
      [&] {
        if (ranks.rank() == 0)
          ranks.all_to_all(mine.data(), all.data(), sizeof(int));
        else
          ranks.all_gather(mine.data(), all.data(), sizeof(int));
      },
      limit + std::chrono::seconds{10});
}

/// Rank 0 does not send the messages that the others expect of it.
inline void check_missing_piece(communicator& ranks, std::chrono::milliseconds limit) {
  const stream stream{ranks.device()};
  growable_device_vector<unsigned char> room{ranks.device()};
  room.resize(100, 0, stream);
  const auto call = [&] {
    if (ranks.rank() == 0)
      ranks.all_gather(nullptr, nullptr, 0);
    else
      ranks.transfer({}, {{0, room.data(), 100}}, stream);
  };
  check_ends_by_rank_error(call, limit + std::chrono::seconds{10});
}

}  // namespace hipvmm::contract
