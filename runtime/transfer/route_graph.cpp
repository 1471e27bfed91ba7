#include "runtime/transfer/route_graph.hpp"

#include <tbb/flow_graph.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/support/thread_sanitizer.hpp"

namespace vmem {
namespace {

// What a node writes into a message, the next one reads. oneTBB orders the two by its own means; this says it once
// more, where tools that don't see into its library can see it.
class HandedOver {
 public:
  void give() noexcept { times_.fetch_add(1, std::memory_order_release); }
  void take() const noexcept { static_cast<void>(times_.load(std::memory_order_acquire)); }

 private:
  std::atomic<unsigned> times_{0};
};

// Messages are plain pointers, so that oneTBB copies nothing of what they hold: made by `pump`, freed by the last node
// that sees them.
struct TransferChunk : HandedOver {
  TransferPtr transfer;
  std::vector<ByteRange> pieces;
  LanePtr lane;
};

// A lane, or the reason why none can be had: then it takes a chunk through the graph to the end of its transfer.
struct Token : HandedOver {
  LanePtr lane;
  Status error;
};

Status no_memory() { return {StatusCode::kOutOfHostMemory, "the process has no memory to go on with the transfer"}; }

std::vector<CopySegment> segments_of(const TransferChunk& chunk, bool from_packed, bool to_packed) {
  std::vector<CopySegment> segments;
  std::size_t packed = 0;
  for (const ByteRange& piece : chunk.pieces) {
    segments.push_back({from_packed ? packed : piece.offset, to_packed ? packed : piece.offset, piece.bytes});
    packed += piece.bytes;
  }
  if (from_packed && to_packed) return {{0, 0, packed}};
  return segments;
}

}  // namespace

// The nodes, built and destroyed in the arena that they run in.
struct RouteGraph::Nodes {
  using Paired = std::tuple<TransferChunk*, Token*>;
  using Hop = tbb::flow::async_node<TransferChunk*, TransferChunk*>;

  Nodes() : chunks(graph), tokens(graph), pair(graph) {}

  tbb::flow::graph graph;
  tbb::flow::queue_node<TransferChunk*> chunks;
  tbb::flow::queue_node<Token*> tokens;
  tbb::flow::join_node<Paired, tbb::flow::reserving> pair;
  std::optional<tbb::flow::function_node<Paired, TransferChunk*, tbb::flow::lightweight>> admit;
  std::deque<Hop> hops;
  std::optional<tbb::flow::function_node<TransferChunk*>> finish;
};

class RouteGraph::Impl {
 public:
  Impl(RouteGraph& self, TransferPath path, const HopExecutor& hops, StagingRing& ring, TransferArena& arena)
      : self_(self), path_(std::move(path)), shape_(shape_of(path_, hops)), hops_(hops), ring_(ring), arena_(arena) {
    arena_.execute([this] { build(); });
  }

  ~Impl() {
    arena_.execute([this] {
      nodes_->graph.wait_for_all();
      pumped_.take();
      nodes_.reset();
    });
  }

  void submit(TransferPtr transfer) {
    {
      MutexLock lock(mutex_);
      depth_ = std::max(depth_, transfer->plan.depth);
      waiting_.push_back(std::move(transfer));
    }
    pump();
  }

  // Feeds the graph as far as lanes go, one chunk more so that the next lane finds one, and ends what is over.
  void pump() {
    std::vector<std::unique_ptr<TransferChunk>> chunks;
    std::vector<std::unique_ptr<Token>> tokens;
    std::vector<TransferPtr> ended;
    {
      MutexLock lock(mutex_);
      while (auto chunk = next_chunk(chunks, ended)) chunks.push_back(std::move(chunk));
      // Once more where it fails for want of memory: a chunk in the graph needs a token to come out of it again.
      for (bool again = true, first = true; again; first = false) {
        try {
          take_lanes(tokens);
          again = false;
        } catch (const std::exception&) {
          again = first;
        }
      }
    }
    for (auto& chunk : chunks) put(nodes_->chunks, chunk.release());
    for (auto& token : tokens) put(nodes_->tokens, token.release());
    for (const auto& transfer : ended) transfer->end();
    pumped_.give();
  }

  const TransferPath& path() const noexcept { return path_; }
  const LaneShape& shape() const noexcept { return shape_; }

 private:
  static LaneShape shape_of(const TransferPath& path, const HopExecutor& hops) {
    LaneShape shape;
    for (std::size_t i = 1; i + 1 < path.places.size(); ++i) {
      shape.places.push_back(path.places[i]);
      std::vector<DeviceIndex> users;
      for (const DeviceIndex neighbour : {path.places[i - 1], path.places[i + 1]}) {
        if (!hops.is_host(neighbour)) users.push_back(neighbour);
      }
      shape.users.push_back(std::move(users));
    }
    return shape;
  }

  void build() {
    nodes_ = std::make_unique<Nodes>();
    auto& graph = nodes_->graph;
    // These read what oneTBB wrote, which ThreadSanitizer can't see the order of; what they call is checked.
    nodes_->admit.emplace(graph, tbb::flow::unlimited, [](const Nodes::Paired& paired) VMEM_NO_THREAD_SANITIZER {
      return admit(std::get<0>(paired), std::get<1>(paired));
    });
    for (std::size_t hop = 0; hop < path_.num_hops(); ++hop) {
      // A CPU copy is done by the body itself: several chunks at once. A device's calls are made in order.
      const bool by_cpu = kind_of(hop) == HopKind::kHostToHost;
      nodes_->hops.emplace_back(graph, by_cpu ? tbb::flow::unlimited : tbb::flow::serial,
                                [this, hop](TransferChunk* chunk, Nodes::Hop::gateway_type& gateway)
                                    VMEM_NO_THREAD_SANITIZER { run_hop(hop, chunk, gateway); });
    }
    nodes_->finish.emplace(graph, tbb::flow::unlimited,
                           [this](TransferChunk* chunk) VMEM_NO_THREAD_SANITIZER { finish(chunk); });
    tbb::flow::make_edge(nodes_->chunks, tbb::flow::input_port<0>(nodes_->pair));
    tbb::flow::make_edge(nodes_->tokens, tbb::flow::input_port<1>(nodes_->pair));
    tbb::flow::make_edge(nodes_->pair, *nodes_->admit);
    tbb::flow::make_edge(*nodes_->admit, nodes_->hops.front());
    for (std::size_t i = 1; i < nodes_->hops.size(); ++i) {
      tbb::flow::make_edge(nodes_->hops[i - 1], nodes_->hops[i]);
    }
    tbb::flow::make_edge(nodes_->hops.back(), *nodes_->finish);
  }

  static TransferChunk* admit(TransferChunk* chunk, Token* with) noexcept {
    const std::unique_ptr<Token> token(with);
    chunk->take();
    token->take();
    chunk->lane = token->lane;
    if (!token->lane) chunk->transfer->fail(token->error);
    chunk->give();
    return chunk;
  }

  HopKind kind_of(std::size_t hop) const { return hops_.kind_of(path_.places[hop], path_.places[hop + 1]); }

  HopCopy copy_of(std::size_t hop, const TransferChunk& chunk) const {
    const bool first = hop == 0;
    const bool last = hop + 1 == path_.num_hops();
    HopCopy copy;
    copy.from = path_.places[hop];
    copy.to = path_.places[hop + 1];
    copy.kind = hops_.kind_of(copy.from, copy.to);
    copy.source =
        first ? static_cast<const std::byte*>(chunk.transfer->source.address) : chunk.lane->buffers[hop - 1]->address;
    copy.destination =
        last ? static_cast<std::byte*>(chunk.transfer->destination.address) : chunk.lane->buffers[hop]->address;
    if (first != last) copy.packed = first ? chunk.lane->buffers.front() : chunk.lane->buffers.back();
    copy.segments = segments_of(chunk, !first, !last);
    return copy;
  }

  void run_hop(std::size_t hop, TransferChunk* chunk, Nodes::Hop::gateway_type& gateway) noexcept {
    chunk->take();
    if (chunk->transfer->has_failed()) {
      put(gateway, chunk);
      return;
    }
    HopCopy copy;
    try {
      copy = copy_of(hop, *chunk);
    } catch (const std::exception&) {
      chunk->transfer->fail(no_memory());
      put(gateway, chunk);
      return;
    }
    gateway.reserve_wait();
    hops_.run(copy, chunk->lane, [chunk, &gateway](const Status& status) {
      if (!status) chunk->transfer->fail(status);
      put(gateway, chunk);
      gateway.release_wait();
    });
  }

  template <typename Node, typename Message>
  static void put(Node& node, Message* message) {
    message->give();
    node.try_put(message);
  }

  void finish(TransferChunk* ended) noexcept {
    const std::unique_ptr<TransferChunk> chunk(ended);
    chunk->take();
    const LanePtr lane = std::move(chunk->lane);
    const TransferPtr& transfer = chunk->transfer;
    std::unique_ptr<Token> token(new (std::nothrow) Token);
    if (token) token->lane = lane;
    bool keep = false;
    bool over = false;
    {
      MutexLock lock(mutex_);
      --num_chunks_;
      --transfer->chunks_out;
      over = transfer->chunks_out == 0 && (transfer->cursor.is_done() || transfer->has_failed());
      if (over) std::erase(waiting_, transfer);
      // Kept only for a chunk that waits in the graph: an idle route holds no staging memory.
      keep = lane && token && num_lanes_ <= num_chunks_ && !ring_.has_waiters() &&
             lane->busy.load(std::memory_order_acquire) == 0;
      if (!keep) --num_lanes_;
    }
    if (keep) {
      put(nodes_->tokens, token.release());
    } else if (lane) {
      ring_.give_back(lane);
    }
    if (over) transfer->end();
    pump();
  }

  // The transfers take turns, chunk by chunk. There is room for the chunk in `chunks`: none that is counted is lost.
  std::unique_ptr<TransferChunk> next_chunk(std::vector<std::unique_ptr<TransferChunk>>& chunks,
                                            std::vector<TransferPtr>& ended) VMEM_REQUIRES(mutex_) {
    while (!waiting_.empty() && num_chunks_ <= depth_) {
      TransferPtr transfer = std::move(waiting_.front());
      waiting_.pop_front();
      if (transfer->has_failed()) {
        if (transfer->chunks_out == 0) ended.push_back(std::move(transfer));
        continue;
      }
      try {
        chunks.reserve(chunks.size() + 1);
        auto chunk = std::make_unique<TransferChunk>();
        chunk->pieces = transfer->cursor.take(transfer->plan.chunk_bytes, transfer->most_pieces);
        chunk->transfer = transfer;
        if (!transfer->cursor.is_done()) waiting_.push_back(transfer);
        ++transfer->chunks_out;
        ++num_chunks_;
        return chunk;
      } catch (const std::exception&) {  // it ends when its last chunk does, or when nobody has it any more
        transfer->fail(no_memory());
      }
    }
    return nullptr;
  }

  void take_lanes(std::vector<std::unique_ptr<Token>>& tokens) VMEM_REQUIRES(mutex_) {
    while (num_lanes_ < std::min<std::size_t>(depth_, num_chunks_)) {
      tokens.reserve(tokens.size() + 1);
      auto token = std::make_unique<Token>();
      auto lane = ring_.take(shape_, &self_);
      if (!lane && (lane.error().code() == StatusCode::kBusy || num_lanes_ > 0)) return;
      if (lane) {
        token->lane = *lane;
      } else {
        token->error = lane.error();
      }
      tokens.push_back(std::move(token));
      ++num_lanes_;
    }
  }

  RouteGraph& self_;
  const TransferPath path_;
  const LaneShape shape_;
  const HopExecutor& hops_;
  StagingRing& ring_;
  TransferArena& arena_;
  std::unique_ptr<Nodes> nodes_;
  HandedOver pumped_;  // by the last task to the destructor

  Mutex mutex_;
  std::deque<TransferPtr> waiting_ VMEM_GUARDED_BY(mutex_);  // with bytes that are not in the graph yet
  unsigned depth_ VMEM_GUARDED_BY(mutex_) = 1;               // the most lanes
  std::size_t num_chunks_ VMEM_GUARDED_BY(mutex_) = 0;       // in the graph
  std::size_t num_lanes_ VMEM_GUARDED_BY(mutex_) = 0;        // of this route: with a chunk, or waiting for one
};

RouteGraph::RouteGraph(TransferPath path, const HopExecutor& hops, StagingRing& ring, TransferArena& arena)
    : impl_(std::make_unique<Impl>(*this, std::move(path), hops, ring, arena)) {}

RouteGraph::~RouteGraph() = default;

const TransferPath& RouteGraph::path() const noexcept { return impl_->path(); }

const LaneShape& RouteGraph::lane_shape() const noexcept { return impl_->shape(); }

void RouteGraph::submit(TransferPtr transfer) { impl_->submit(std::move(transfer)); }

void RouteGraph::lane_available() { impl_->pump(); }

}  // namespace vmem
