// Scans and multi-gets: over ranges, and over the replies of one range, which are all of one moment. The
// first reply of a scan brings a snapshot of the range for those behind it. A multi-get that does not fit
// into one reply is asked for again, at a snapshot that is taken for it.
#include "client/client_scan.h"

#include <algorithm>
#include <numeric>

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr uint32_t kScanPage = 10'000;             // entries asked of one LTC at a time
constexpr size_t kMaxMultiGetKeyBytes = 16 << 20;  // they travel in one message

}  // namespace

bool ScanRun::AddReply(const ScanReply& reply, std::string_view key_prefix) {
  std::string_view in = reply.entries, key, value;
  for (uint32_t i = 0; i < reply.count; ++i) {
    if (!GetLengthPrefixed(&in, &key) || !GetLengthPrefixed(&in, &value) || !key.starts_with(key_prefix))
      return false;
    if (!one_page) entries.emplace_back(key.substr(key_prefix.size()), value);
  }
  if (one_page) page = {std::string(reply.entries), reply.count};
  if (reply.count > 0) {
    last_key.assign(key);
    (reverse ? now.to : now.from).assign(key);
    if (!reverse) now.from.push_back('\0');
  }
  now.count = count += reply.count;
  return in.empty();
}

bool ScanRun::EnterNextRange(const Target& left) {
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

void ScanRun::RestartRange() {
  now = range_start;
  count = now.count;
  if (!one_page) entries.resize(count);
}

namespace {

void SendScan(ClientRep* rep, const std::shared_ptr<ScanRun>& run, const Target& target, const OpRef& op);

// The reply of one try. `snapshot`: that the LTC has made for the pages behind it; 0: none.
void TakeScanReply(ClientRep* rep, const std::shared_ptr<ScanRun>& run, const Target& target, const OpRef& op,
                   uint32_t asked, const ScanReply& reply, uint64_t snapshot) {
  if (snapshot != 0) op->page_snapshot = rep->Keep(op->lane, target, snapshot);
  const bool more = reply.more || (reply.count == asked && run->WantsMoreThan(asked));
  if (!run->AddReply(reply, rep->key_prefix)) return rep->Finish(op.get(), Outcome::kInternal);
  if (!more) {
    op->page_snapshot = nullptr;
    if (!run->EnterNextRange(target)) {
      run->at_end = true;
      return rep->Finish(op.get(), Outcome::kOk);
    }
  }
  if (run->IsFull()) return rep->Finish(op.get(), Outcome::kOk);
  rep->ExtendDeadline(op.get());
  op->key = run->NextKey();
  rep->Try(op);
}

void SendScan(ClientRep* rep, const std::shared_ptr<ScanRun>& run, const Target& target, const OpRef& op) {
  const auto asked = static_cast<uint32_t>(std::min<size_t>(run->limit - run->count, kScanPage));
  const auto end = [=](Outcome o, const ScanReply& reply, uint64_t snapshot, std::string_view why) {
    if (rep->RetriesRead(op, o, why)) return;
    o == Outcome::kOk ? TakeScanReply(rep, run, target, op, asked, reply, snapshot)
                      : rep->Finish(op.get(), o);
  };
  if (target.snapshot != 0) {
    const ScanRequest request{target.range, target.epoch,  target.snapshot, asked,
                              run->reverse, run->now.from, run->now.to};
    return op->lane->ltc->Scan(
        target.address, request, rep->ReadDeadline(*op),
        [end](Outcome o, const ScanReply& reply, std::string_view why) { end(o, reply, 0, why); });
  }
  const BeginScanRequest request{target.range,
                                 target.epoch,
                                 static_cast<uint32_t>(rep->options.snapshot_lease_ms),
                                 asked,
                                 run->WantsMoreThan(asked),
                                 run->reverse,
                                 run->now.from,
                                 run->now.to};
  op->lane->ltc->BeginScan(target.address, request, rep->ReadDeadline(*op),
                           [end](Outcome o, const BeginScanReply& reply, std::string_view why) {
                             end(o, reply.page, reply.snapshot, why);
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
  MultiGetRequest request{target.range, target.epoch, target.snapshot, {}};
  for (size_t i = part->answered; i < part->keys.size(); ++i)
    request.keys.push_back(run->keys[part->keys[i]]);
  op->lane->ltc->MultiGet(
      target.address, request, rep->ReadDeadline(*op),
      [=, asked = request.keys.size()](Outcome o, const MultiGetReply& reply, std::string_view why) {
        if (rep->RetriesRead(op, o, why)) return;
        if (o != Outcome::kOk) return rep->Finish(op.get(), o);
        if (reply.values.empty() || reply.values.size() > asked)
          return rep->Finish(op.get(), Outcome::kInternal);
        const bool more = reply.values.size() < asked;
        if (more && target.snapshot == 0) return rep->TakePageSnapshot(op, target);
        for (const auto& value : reply.values) {
          // Also none is written: a multi-get that began anew has what it found before.
          auto& found = run->result.values[part->keys[part->answered++]];
          found = value ? std::optional<std::string>(*value) : std::nullopt;
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
  op->restart = [part] { part->answered = 0; };
  op->send = [rep, run, part](const Target& target, const OpRef& op) {
    SendPart(rep, run, part, target, op);
  };
  op->end = [run](Result result) {
    if (!result.ok()) static_cast<Result&>(run->result) = std::move(result);
    if (--run->parts > 0) return;
    if (!run->result.ok()) run->result.values.clear();
    run->done(std::move(run->result));
  };
  ++run->parts;
  rep->StartOn(lane, std::move(op));
}

}  // namespace

void ClientRep::StartScan(std::shared_ptr<ScanRun> run, std::shared_ptr<const ClientSnapshot> snapshot,
                          std::shared_ptr<const ClientSnapshot> page_snapshot, ScanEnd end) {
  run->range_start = run->now;
  auto op = NewOp("scan", run->NextKey());
  op->below = run->reverse;
  op->snapshot = std::move(snapshot);
  op->page_snapshot = std::move(page_snapshot);
  op->restart = [run, op = op.get()] {
    run->RestartRange();
    op->key = run->NextKey();
  };
  op->send = [this, run](const Target& target, const OpRef& op) { SendScan(this, run, target, op); };
  op->end = [op = op.get(), end = std::move(end)](Result result) {
    end(std::move(result), std::move(op->page_snapshot));
  };
  Start(std::move(op));
}

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
  rep_->StartScan(run, options.snapshot, nullptr,
                  [run, done = std::move(done)](Result result, std::shared_ptr<const ClientSnapshot>) {
                    if (!result.ok()) run->entries.clear();
                    done({std::move(result), std::move(run->entries)});
                  });
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
