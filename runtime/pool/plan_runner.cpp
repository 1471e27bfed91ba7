#include "runtime/pool/plan_runner.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "runtime/pool/without_exceptions.hpp"
#include "runtime/support/check.hpp"

namespace vmem {
namespace {

std::size_t bytes_of(const Move& move) {
  std::size_t bytes = 0;
  move.pages.for_each_run([&](PageRange run) { bytes += move.block->bytes_of(run); });
  return bytes;
}

constexpr std::chrono::milliseconds kLookInterval{5};  // how often a wait looks whether it was cancelled

Status cancelled() { return {StatusCode::kCancelled, "cancelled between two moves"}; }

}  // namespace

// For work whose bytes are replaced or already elsewhere: that it is over matters, not how. Nothing moves meanwhile.
Status PlanRunner::wait_for(const std::vector<Event>& events) const {
  for (const Event& event : events) {
    if (cancelled_ == nullptr) static_cast<void>(event.wait());
    while (!event.is_done()) {
      if (is_cancelled()) return cancelled();
      static_cast<void>(event.wait(std::chrono::steady_clock::now() + kLookInterval));
    }
  }
  return {};
}

Status PlanRunner::run(Plan& plan, Claim& claim) {
  Status status = without_exceptions([&] { return start_all(plan, claim); });
  // What is under way is seen through also after an error: each move commits alone.
  while (!leaving_.empty()) {
    Status left = finish_next_eviction(plan);
    if (status) status = left;
  }
  Status arrived = finish_fetches(claim);
  return status ? arrived : status;
}

Status PlanRunner::start_all(Plan& plan, Claim& claim) {
  VMEM_RETURN_IF_ERROR(start_evictions(plan));
  std::size_t next = 0;
  for (std::size_t i = 0; i < claim.pieces.size() && !plan.makes_room; ++i) {
    Piece& piece = claim.pieces[i];
    while (next < plan.frames.size() && plan.frames[next].region == &piece.block->region() &&
           plan.frames[next].first_block <= piece.block->index()) {
      VMEM_RETURN_IF_ERROR(make_frames(plan, plan.frames[next]));
      ++next;
    }
    if (!piece.resident) VMEM_RETURN_IF_ERROR(start_fetches(claim, piece));
  }
  return {};
}

Result<Event> PlanRunner::start(const Move& move) {
  TransferRequest request;
  request.source = {move.from, move.source};
  request.destination = {move.to, move.destination};
  std::size_t num_runs = 0;
  move.pages.for_each_run([&](PageRange) { ++num_runs; });
  request.ranges.reserve(num_runs);
  move.pages.for_each_run([&](PageRange run) {
    request.ranges.push_back({std::size_t{run.begin} * kPageBytes, move.block->bytes_of(run)});
  });
  request.after = move.after;
  return transfers_.start(request);
}

Status PlanRunner::start_evictions(Plan& plan) {
  for (Eviction& eviction : plan.evictions) {
    if (is_cancelled()) return cancelled();
    Leaving& leaving = leaving_.emplace_back();
    leaving.eviction = &eviction;
    leaving.status = without_exceptions([&] { return start_departures(plan, leaving); });
    if (!leaving.status) return leaving.status;
  }
  return {};
}

Status PlanRunner::start_departures(const Plan& plan, Leaving& leaving) {
  std::vector<Departure>& departures = leaving.eviction->departures;
  leaving.copies.reserve(departures.size());  // a copy that was started must not be lost
  for (Departure& departure : departures) {
    auto move = residency_.begin_departure(*leaving.eviction, departure);
    Result<Event> event = Event();
    // Where nothing is left to copy, the frame is still in use until those before are done.
    if (move && !move->pages.none()) event = start(*move);
    if (!move || !event) {
      if (departure.to != plan.device) refused_by_ = departure.to;
      return move ? event.error() : move.error();
    }
    leaving.copies.push_back({std::move(*move), std::move(*event)});
  }
  return {};
}

Status PlanRunner::finish_next_eviction(Plan& plan) noexcept {
  VMEM_CHECK(!leaving_.empty());
  Leaving leaving = std::move(leaving_.front());
  leaving_.pop_front();
  for (const Copy& copy : leaving.copies) {
    const Status status = without_exceptions([&] { return finish_departure(copy); });
    if (status || !leaving.status) continue;
    leaving.status = status;
    if (status.code() != StatusCode::kCancelled) refused_by_ = copy.move.to;
  }
  if (leaving.status) {
    residency_.end_eviction(plan, *leaving.eviction);
  } else {
    residency_.abort_eviction(*leaving.eviction);
  }
  return leaving.status;
}

Status PlanRunner::finish_departure(const Copy& copy) {
  if (copy.move.pages.none()) return wait_for(copy.move.after);
  VMEM_RETURN_IF_ERROR(copy.event.wait());
  residency_.commit_departure(copy.move);
  counters_.add(copy.move.from, copy.move.to, MoveCounters::Reason::kEvict, bytes_of(copy.move));
  return {};
}

Status PlanRunner::make_frames(Plan& plan, const Arriving& arriving) {
  while (plan.reserved_bytes < arriving.bytes || (plan.evict_first && !leaving_.empty())) {
    if (leaving_.empty()) return {StatusCode::kInternal, "a plan reserved less than it needs"};
    VMEM_RETURN_IF_ERROR(finish_next_eviction(plan));
  }
  if (is_cancelled()) return cancelled();
  auto relocations = residency_.make_frames(plan, arriving);
  if (!relocations) {
    frames_failed_ = true;
    return relocations.error();
  }
  Status result;
  for (const Move& move : *relocations) {
    if (result) result = without_exceptions([&] { return relocate(move); });
    residency_.end_relocation(move, result.is_ok());
  }
  return result;
}

Status PlanRunner::relocate(const Move& move) {
  VMEM_RETURN_IF_ERROR(wait_for(move.after));
  if (move.pages.none()) return {};
  VMEM_ASSIGN_OR_RETURN(const Event event, start(move));
  VMEM_RETURN_IF_ERROR(event.wait());
  residency_.commit_departure(move);
  return {};
}

Status PlanRunner::start_fetches(Claim& claim, Piece& piece) {
  if (is_cancelled()) return cancelled();
  // Ranges of a list may share pages, which one copy brings for all.
  PageMask* under_way = nullptr;
  if (claim.ranges.size() > 1) {
    under_way = &under_way_.try_emplace(piece.block, piece.block->num_pages()).first->second;
  }
  VMEM_ASSIGN_OR_RETURN(std::vector<Move> moves, residency_.begin_fetch(claim, piece, under_way));
  fetches_.reserve(fetches_.size() + moves.size());  // a copy that was started must not be lost
  for (Move& move : moves) {
    if (move.fill) {
      VMEM_RETURN_IF_ERROR(fill(move));
      residency_.commit_fetch(move);
      continue;
    }
    if (under_way != nullptr) *under_way |= move.pages;
    VMEM_ASSIGN_OR_RETURN(Event event, start(move));
    counters_.add(move.from, move.to, MoveCounters::Reason::kFetch, bytes_of(move));
    fetches_.push_back({std::move(move), std::move(event)});
  }
  return {};
}

Status PlanRunner::fill(const Move& move) {
  VMEM_RETURN_IF_ERROR(wait_for(move.after));
  Device& device = *residency_.memory(move.to).device;
  Status status;
  move.pages.for_each_run([&](PageRange run) {
    if (!status) return;
    auto* address = static_cast<std::byte*>(move.destination) + std::size_t{run.begin} * kPageBytes;
    auto event = device.fill(address, 0, move.block->bytes_of(run), Stream());
    status = event ? event->wait() : event.error();
  });
  return status;
}

Status PlanRunner::finish_fetches(Claim& claim) noexcept {
  Status result;
  for (const Copy& copy : fetches_) {
    Status status = without_exceptions([&] { return finish_fetch(claim, copy); });
    if (result) result = std::move(status);
  }
  return result;
}

Status PlanRunner::finish_fetch(const Claim& claim, const Copy& copy) {
  if (claim.stream.has_value() && leaves_it_to_the_stream(claim, copy)) return {};
  VMEM_RETURN_IF_ERROR(copy.event.wait());
  residency_.commit_fetch(copy.move);
  return {};
}

// Where it can't, for whatever reason, the copy is waited for.
bool PlanRunner::leaves_it_to_the_stream(const Claim& claim, const Copy& copy) noexcept {
  try {
    Device& device = *residency_.memory(claim.device).device;
    return device.wait_event(claim.stream, copy.event) && residency_.commit_fetch_later(copy.move, copy.event);
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

}  // namespace vmem
