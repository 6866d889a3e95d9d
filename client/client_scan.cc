// Scans and multi-gets: over ranges, and over the replies of one range, which are all of one moment: an
// answer that does not fit into one reply is asked for again, from the range's first key, at a snapshot of
// the range that is taken for it.
#include <algorithm>
#include <numeric>

#include "client/client_rep.h"
#include "common/base/coding.h"

namespace nova {
namespace {

constexpr uint32_t kScanPage = 10'000;             // entries asked of one LTC at a time
constexpr size_t kMaxMultiGetKeyBytes = 16 << 20;  // they travel in one message

struct ScanRun {
  ScanResult result;
  size_t limit = 0;
  bool reverse = false;
  size_t prefix_size = 0;  // of the keyspace
  struct Place {
    std::string from, to;  // stored: what is still wanted
    size_t entries = 0;    // what was found before
  };
  Place now;
  Place range_start;  // of the range under way
  PageSnapshot page;

  const std::string& NextKey() const { return reverse ? now.to : now.from; }

  // Adds a page's entries; the scan goes on behind the last of them.
  bool AddPage(const ScanReply& reply, std::string_view key_prefix) {
    std::string_view in = reply.entries, key, value;
    for (uint32_t i = 0; i < reply.count; ++i) {
      if (!GetLengthPrefixed(&in, &key) || !GetLengthPrefixed(&in, &value) || !key.starts_with(key_prefix))
        return false;
      result.entries.emplace_back(key.substr(key_prefix.size()), value);
    }
    if (reply.count > 0) {
      (reverse ? now.to : now.from).assign(key);
      if (!reverse) now.from.push_back('\0');
    }
    now.entries = result.entries.size();
    return in.empty();
  }
  // False: the scan ends with this range.
  bool EnterNextRange(const Target& left) {
    if (reverse) {
      if (left.lower <= now.from) return false;
      now.to = left.lower;
    } else {
      if (left.upper.empty() || left.upper >= now.to) return false;
      now.from = left.upper;
    }
    range_start = now;
    return true;
  }
  void RestartRange() {
    page.id = 0;
    now = range_start;
    result.entries.resize(now.entries);
  }
};

void SendScan(ClientRep* rep, const std::shared_ptr<ScanRun>& run, const Target& target, const OpRef& op) {
  if (run->page.id != 0 && run->page.epoch != target.epoch) {
    run->RestartRange();
    op->key = run->NextKey();
  }
  const size_t left = run->limit - run->result.entries.size();
  const auto asked = static_cast<uint32_t>(std::min<size_t>(left, kScanPage));
  const uint64_t snapshot = target.snapshot != 0 ? target.snapshot : run->page.id;
  const ScanRequest request{target.range, target.epoch,  snapshot,   asked,
                            run->reverse, run->now.from, run->now.to};
  op->lane->ltc->Scan(target.address, request, rep->ReadDeadline(*op),
                      [=](Outcome o, const ScanReply& reply, std::string_view why) {
                        if (o == Outcome::kSnapshotEnded && run->page.id != 0) {
                          run->RestartRange();
                          op->key = run->NextKey();
                          o = Outcome::kUnavailable;
                        }
                        if (rep->RetriesRead(op, o, why)) return;
                        if (o != Outcome::kOk) return rep->Finish(op.get(), o);
                        const bool more = reply.more || (reply.count == asked && asked < left);
                        if (more && snapshot == 0) return rep->TakePageSnapshot(op, target, &run->page);
                        if (!run->AddPage(reply, rep->key_prefix))
                          return rep->Finish(op.get(), Outcome::kInternal);
                        if (run->result.entries.size() >= run->limit)
                          return rep->Finish(op.get(), Outcome::kOk);
                        if (!more) {
                          rep->DropPageSnapshot(op->lane, &run->page);
                          if (!run->EnterNextRange(target)) return rep->Finish(op.get(), Outcome::kOk);
                        }
                        op->key = run->NextKey();
                        rep->Try(op);
                      });
}

// All on one lane.
struct MultiGetRun {
  MultiGetResult result;
  std::vector<std::string> keys;  // stored
  ReadOptions options;
  Nanos deadline_ns = 0;
  size_t parts = 0;
  std::function<void(MultiGetResult)> done;
};

// Keys of one range, or not cut into ranges yet.
struct MultiGetPart {
  std::vector<size_t> keys;  // indexes, in key order
  size_t answered = 0;
  PageSnapshot page;
};

void StartPart(ClientRep* rep, ClientLane* lane, const std::shared_ptr<MultiGetRun>& run,
               std::vector<size_t> keys);

void SendPart(ClientRep* rep, const std::shared_ptr<MultiGetRun>& run,
              const std::shared_ptr<MultiGetPart>& part, const Target& target, const OpRef& op) {
  const auto other = std::find_if(part->keys.begin(), part->keys.end(),
                                  [&](size_t i) { return !target.Contains(run->keys[i]); });
  if (other != part->keys.end()) {
    StartPart(rep, op->lane, run, {other, part->keys.end()});
    part->keys.erase(other, part->keys.end());
  }
  const auto restart = [part] {
    part->page.id = 0;
    part->answered = 0;
  };
  if (part->page.id != 0 && part->page.epoch != target.epoch) restart();
  const uint64_t snapshot = target.snapshot != 0 ? target.snapshot : part->page.id;
  MultiGetRequest request{target.range, target.epoch, snapshot, {}};
  for (size_t i = part->answered; i < part->keys.size(); ++i)
    request.keys.push_back(run->keys[part->keys[i]]);
  op->lane->ltc->MultiGet(
      target.address, request, rep->ReadDeadline(*op),
      [=, asked = request.keys.size()](Outcome o, const MultiGetReply& reply, std::string_view why) {
        if (o == Outcome::kSnapshotEnded && part->page.id != 0) {
          restart();
          o = Outcome::kUnavailable;
        }
        if (rep->RetriesRead(op, o, why)) return;
        if (o != Outcome::kOk) return rep->Finish(op.get(), o);
        if (reply.values.empty() || reply.values.size() > asked)
          return rep->Finish(op.get(), Outcome::kInternal);
        const bool more = reply.values.size() < asked;
        if (more && snapshot == 0) return rep->TakePageSnapshot(op, target, &part->page);
        for (const auto& value : reply.values) {
          auto& wanted = run->result.values[part->keys[part->answered++]];
          if (value) wanted.emplace(*value);
        }
        more ? rep->Try(op) : rep->Finish(op.get(), Outcome::kOk);
      });
}

void StartPart(ClientRep* rep, ClientLane* lane, const std::shared_ptr<MultiGetRun>& run,
               std::vector<size_t> keys) {
  auto part = std::make_shared<MultiGetPart>();
  part->keys = std::move(keys);
  auto op = rep->NewOp("multi-get", run->keys[part->keys.front()]);
  op->snapshot = run->options.snapshot;
  op->deadline_ns = run->deadline_ns;
  op->send = [rep, run, part](const Target& target, const OpRef& op) {
    SendPart(rep, run, part, target, op);
  };
  op->end = [rep, lane, run, part](Result result) {
    rep->DropPageSnapshot(lane, &part->page);
    if (!result.ok()) static_cast<Result&>(run->result) = std::move(result);
    if (--run->parts > 0) return;
    if (!run->result.ok()) run->result.values.clear();
    run->done(std::move(run->result));
  };
  ++run->parts;
  rep->StartOn(lane, std::move(op));
}

}  // namespace

void Client::ScanAsync(std::string_view from, const ScanOptions& options,
                       std::function<void(ScanResult)> done) {
  Result checked = rep_->CheckSnapshot(options.snapshot);
  if (options.limit == 0) checked = {Outcome::kInvalidArgument, "a scan of no entries"};
  if (from.size() > kMaxUserKeyBytes) checked = {Outcome::kInvalidArgument, "the start key is too long"};
  if (options.to.size() > kMaxUserKeyBytes) checked = {Outcome::kInvalidArgument, "the end key is too long"};
  if (options.prefix.size() > kMaxUserKeyBytes)
    checked = {Outcome::kInvalidArgument, "the prefix is too long"};
  if (!checked.ok()) return done({std::move(checked), {}});
  auto run = std::make_shared<ScanRun>();
  run->limit = options.limit;
  run->reverse = options.reverse;
  const std::string prefix = rep_->Stored(options.prefix);
  run->now = {std::max(prefix, rep_->Stored(from)), PrefixEnd(prefix)};  // a keyspace ends below 0xff
  if (!options.to.empty()) run->now.to = std::min(run->now.to, rep_->Stored(options.to));
  if (run->now.from >= run->now.to) return done({});
  run->range_start = run->now;
  auto op = rep_->NewOp("scan", run->NextKey());
  op->below = options.reverse;
  op->snapshot = options.snapshot;
  op->send = [rep = rep_.get(), run](const Target& target, const OpRef& op) {
    SendScan(rep, run, target, op);
  };
  op->end = [rep = rep_.get(), run, op = op.get(), done = std::move(done)](Result result) {
    rep->DropPageSnapshot(op->lane, &run->page);
    if (!result.ok()) run->result.entries.clear();
    static_cast<Result&>(run->result) = std::move(result);
    done(std::move(run->result));
  };
  rep_->Start(std::move(op));
}

void Client::MultiGetAsync(std::span<const std::string_view> keys, const ReadOptions& options,
                           std::function<void(MultiGetResult)> done) {
  Result checked = rep_->CheckSnapshot(options.snapshot);
  if (keys.size() > kMaxMultiGetKeys) {
    checked = {Outcome::kInvalidArgument,
               StrCat("a multi-get of ", keys.size(), " keys, the limit is ", kMaxMultiGetKeys)};
  }
  auto run = std::make_shared<MultiGetRun>();
  size_t bytes = 0;
  for (const std::string_view key : keys) {
    if (!checked.ok()) break;
    checked = ClientRep::CheckKey(key);
    bytes += key.size();
    run->keys.push_back(rep_->Stored(key));
  }
  if (checked.ok() && bytes > kMaxMultiGetKeyBytes) {
    checked = {Outcome::kInvalidArgument,
               StrCat("the keys have ", bytes, " bytes, the limit is ", kMaxMultiGetKeyBytes)};
  }
  if (!checked.ok() || keys.empty()) return done({std::move(checked), {}});
  run->result.values.resize(keys.size());
  run->options = options;
  run->deadline_ns = Now() + rep_->options.timeout_ms * kMillisecond;
  run->done = std::move(done);
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return run->keys[a] < run->keys[b]; });
  ClientLane* const lane =
      rep_->lanes[rep_->next_lane.fetch_add(1, std::memory_order_relaxed) % rep_->lanes.size()].get();
  StartPart(rep_.get(), lane, run, std::move(order));
}

}  // namespace nova
