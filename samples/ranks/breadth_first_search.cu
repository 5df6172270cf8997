// SPDX-License-Identifier: MIT
// A breadth-first search of an R-MAT graph whose vertices are on ranks. How many edges a rank gets,
// and how many vertices a step finds on whom, nobody knows before: both come by exchange(), into
// vectors that grow. The levels and the tree are compared with a search on the host.
//   breadth_first_search --ranks threads:4 --size 14   (2^14 vertices, 16 edges for each)
#include <cstdio>
#include <hipvmm/hipvmm.hpp>
#include <vector>

#include "buckets.hpp"
#include "rmat.hpp"
#include "run_ranks.hpp"

namespace {

constexpr unsigned edges_per_vertex = 16;
constexpr unsigned none = ~0U;

struct graph_size {
  unsigned scale;
  vertex vertices;       // of all ranks
  vertex rank_vertices;  // of each rank but the last ones, in the order of ranks
};

struct owner_of_from {
  vertex rank_vertices;
  HIPVMM_HOST_DEVICE unsigned operator()(const edge& of) const { return of.from / rank_vertices; }
};
struct owner_of_to {
  vertex rank_vertices;
  HIPVMM_HOST_DEVICE unsigned operator()(const edge& of) const { return of.to / rank_vertices; }
};

/// The work of a thread: makes an edge of the graph, in both directions.
struct make_edge {
  edge* edges;
  std::size_t first;
  unsigned scale;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const edge made = rmat_edge(first + index, scale);
    edges[2 * index] = made;
    edges[2 * index + 1] = {made.to, made.from};
  }
};

/// Finds the first edge of a vertex.
struct find_begin {
  hipvmm::device_span<const edge> edges;
  unsigned* begins;
  vertex first;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const edge least{first + static_cast<vertex>(index), 0};
    begins[index] = static_cast<unsigned>(lower_bound(edges.data(), edges.size(), least));
  }
};

/// Appends the ends of a vertex's edges, each once on this rank in the whole search.
struct expand {
  const vertex* frontier;
  const edge* edges;
  const unsigned* begins;
  vertex first;
  unsigned* seen;
  hipvmm::device_appender_ref<edge> found;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const vertex from = frontier[index];
    for (unsigned at = begins[from - first]; at < begins[from - first + 1]; ++at) {
      unsigned* const mark = seen + edges[at].to;
      if (!claim(mark, 0, 1)) continue;
      if (!found.push(edges[at])) *mark = 0;  // for the next run
    }
  }
};

/// Takes a vertex of this rank into the tree, unless it is there.
struct settle {
  const edge* arrived;
  unsigned* levels;
  vertex* parents;
  vertex first;
  unsigned depth;
  hipvmm::device_appender_ref<vertex> next;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    const edge by = arrived[index];
    if (!claim(levels + (by.to - first), none, depth)) return;
    parents[by.to - first] = by.from;
    next.push(by.to);
  }
};

/// One rank's vertices, and those that it has found.
class search {
 public:
  search(hipvmm::communicator& ranks, const graph_size& size)
      : ranks_{ranks},
        size_{size},
        first_{static_cast<vertex>(ranks.rank()) * size.rank_vertices},
        queue_{ranks},
        buckets_{ranks} {
    const vertex end = std::min(first_ + size.rank_vertices, size.vertices);
    const std::size_t own = end > first_ ? end - first_ : 0;
    levels_.resize(own, none, stream_);
    parents_.resize(own, none, stream_);
    seen_.resize(size.vertices, stream_);
    get_edges();
  }

  /// Returns the number of levels.
  unsigned run(vertex root) {
    if (root - first_ < levels_.size()) {
      levels_.set_element(root - first_, 0, stream_);
      parents_.set_element(root - first_, root, stream_);
      queue_.local().push_back(root, stream_);
    }
    unsigned depth = 0;
    queue_.update();
    for (std::size_t visited = 0; queue_.size() != visited; queue_.update()) {
      visited = queue_.size();
      search_level(++depth);
    }
    return depth;
  }

  /// Vertices found by all ranks.
  [[nodiscard]] std::size_t visited() const { return queue_.size(); }

  /// Levels and parents of all vertices, on rank 0.
  void collect(std::vector<unsigned>& levels, std::vector<vertex>& parents) {
    hipvmm::growable_device_vector<unsigned> all{ranks_.device()};
    gather(levels_, all, 0, ranks_, stream_);
    gather(parents_, all, 0, ranks_, stream_);
    const std::vector<unsigned> both = all.copy_to_host(stream_);
    const auto half = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
    levels.assign(both.begin(), half);
    parents.assign(half, both.end());
  }

 private:
  /// Each rank makes a share of the edges and sends them to the ranks of their vertices.
  void get_edges() {
    const auto shares =
        hipvmm::partition::even(std::size_t{size_.vertices} * edges_per_vertex, ranks_.size());
    hipvmm::growable_device_vector<edge> made{ranks_.device()};
    made.resize_uninitialized(2 * shares.size(ranks_.rank()));
    launch(shares.size(ranks_.rank()),
           make_edge{made.data(), shares.offset(ranks_.rank()), size_.scale}, stream_,
           {writes(made)});
    buckets_.fill(made, owner_of_from{size_.rank_vertices}, stream_);
    exchange(buckets_.items(), buckets_.counts(), edges_, ranks_, stream_);
    sort(edges_.span(), stream_);
    begins_.resize_uninitialized(levels_.size() + 1);
    launch(begins_.size(), find_begin{edges_, begins_.data(), first_}, stream_,
           {reads(edges_), writes(begins_)});
  }

  void search_level(unsigned depth) {
    // The vertices of the last level are at the end of the queue.
    const auto frontier = queue_.local().span();
    const std::size_t count = frontier.size() - frontier_;
    found_.clear();
    std::size_t room = count * edges_per_vertex;  // a guess
    do {
      const auto ref = appender_.prepare(room, stream_);
      launch(count,
             expand{frontier.data() + frontier_, edges_.data(), begins_.data(), first_,
                    seen_.data(), ref},
             stream_, {reads(frontier), reads(edges_), reads(begins_), writes(seen_)});
      room = appender_.commit(stream_, hipvmm::on_overflow::keep).missed;
    } while (room != 0);
    frontier_ = frontier.size();

    buckets_.fill(found_, owner_of_to{size_.rank_vertices}, stream_);
    arrived_.clear();
    exchange(buckets_.items(), buckets_.counts(), arrived_, ranks_, stream_);
    launch(arrived_.size(),
           settle{arrived_.data(), levels_.data(), parents_.data(), first_, depth,
                  next_.prepare(arrived_.size(), stream_)},
           stream_, {reads(arrived_), writes(levels_), writes(parents_)});
    static_cast<void>(next_.commit(stream_));
  }

  hipvmm::communicator& ranks_;
  graph_size size_;
  vertex first_;
  hipvmm::stream stream_;
  hipvmm::growable_device_vector<edge> edges_;       // by their first vertex
  hipvmm::growable_device_vector<unsigned> begins_;  // of each vertex, in them
  hipvmm::growable_device_vector<unsigned> levels_;
  hipvmm::growable_device_vector<vertex> parents_;
  hipvmm::growable_device_vector<unsigned> seen_;
  hipvmm::partitioned_vector<vertex> queue_;  // all that were found
  std::size_t frontier_ = 0;                  // the first of the last level
  hipvmm::growable_device_vector<edge> found_;
  hipvmm::growable_device_vector<edge> arrived_;
  hipvmm::device_appender<edge> appender_{found_};
  hipvmm::device_appender<vertex> next_{queue_.local()};
  buckets<edge> buckets_;
};

/// Compares with a search on the host. Returns the vertices that it found.
void check(const graph_size& size, vertex root, const std::vector<unsigned>& levels,
           const std::vector<vertex>& parents) {
  std::vector<std::vector<vertex>> neighbours(size.vertices);
  for (std::size_t i = 0; i < std::size_t{size.vertices} * edges_per_vertex; ++i) {
    const edge made = rmat_edge(i, size.scale);
    neighbours[made.from].push_back(made.to);
    neighbours[made.to].push_back(made.from);
  }
  std::vector<unsigned> expected(size.vertices, none);
  std::vector<vertex> queue{root};
  expected[root] = 0;
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (const vertex next : neighbours[queue[at]]) {
      if (expected[next] != none) continue;
      expected[next] = expected[queue[at]] + 1;
      queue.push_back(next);
    }
  require(levels == expected, "a level is wrong");
  for (vertex each = 0; each < size.vertices; ++each) {
    const vertex parent = parents[each];
    require((parent == none) == (levels[each] == none), "a vertex without level has a parent");
    if (parent == none || each == root) continue;
    require(levels[parent] + 1 == levels[each], "a parent is not one level above");
    const std::vector<vertex>& near = neighbours[each];
    require(std::find(near.begin(), near.end(), parent) != near.end(), "a parent has no edge");
  }
  require(parents[root] == root, "the root has a parent");
}

void run(hipvmm::communicator& ranks, std::size_t scale) {
  require(scale > 0 && scale < 27, "--size is the logarithm of the number of vertices, below 27");
  const vertex vertices = 1U << scale;
  const auto count = static_cast<vertex>(ranks.size());
  const graph_size size{static_cast<unsigned>(scale), vertices, (vertices + count - 1) / count};
  const vertex root = rmat_edge(0, size.scale).from;  // has an edge
  search own{ranks, size};
  const unsigned depth = own.run(root);
  std::vector<unsigned> levels;
  std::vector<vertex> parents;
  own.collect(levels, parents);
  if (ranks.rank() != 0) return;
  check(size, root, levels, parents);
  std::printf("%zu of %u vertices in %u levels, on %d ranks: %s\n", own.visited(), vertices, depth,
              ranks.size(), ranks.describe().c_str());
}

}  // namespace

int main(int count, char** arguments) {
  return run_on_ranks(count, arguments, "breadth_first_search", 14, run);
}
