#include "stoc/sstable_store.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

namespace nova {
namespace {

constexpr Nanos kPauseBetweenRounds = 10 * kMillisecond;  // when every copy has failed once, and may answer the next time

// The bytes of a table are gone from a copy, and will not come back by asking again.
bool IsFinal(const Status& s) { return absl::IsNotFound(s) || absl::IsDataLoss(s); }

Nanos DeadlineOfTry(Nanos deadline_ns, bool another_copy) {
  const Nanos now = Now();
  return another_copy && deadline_ns > now ? now + (deadline_ns - now) / 3 : deadline_ns;
}

// Collects what the copies said.
class Failures {
 public:
  void Add(const Status& s) {
    any_retryable_ = any_retryable_ || !IsFinal(s);
    if (count_++ >= kMostTold) return;
    text_ += StrCat(text_.empty() ? "" : "; ", s.message());
  }
  void NextRound() { any_retryable_ = false; }
  bool any_retryable() const { return any_retryable_; }
  Status ToStatus(const StocFileId& file) const {
    const std::string text = StrCat("no copy of ", file.ToString(), ": ", text_.empty() ? "none is listed" : text_);
    return any_retryable_ || text_.empty() ? absl::UnavailableError(text) : absl::DataLossError(text);
  }

 private:
  static constexpr int kMostTold = 6;
  std::string text_;
  int count_ = 0;
  bool any_retryable_ = false;
};

Status ShortRead(StocId stoc, size_t got, size_t wanted) {
  return absl::DataLossError(StrCat("stoc ", stoc.value(), " has ", got, " of ", wanted, " bytes"));
}

class StocSstableStore : public SstableStore {
 public:
  StocSstableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of, const StocSstableStoreOptions& options)
      : client_(client), xchg_of_(std::move(xchg_of)), options_(options) {}

  StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement, const Creator& creator) override {
    TableInfo& info = output.info;
    info.fragments = CutFragments(output.block_ends, placement.fragments.size());
    info.metadata_stocs = placement.metadata;
    if (info.fragments.empty() || info.metadata_stocs.empty()) return absl::InvalidArgumentError("a table without a place");
    std::vector<FileWrite> files;
    for (size_t i = 0; i < info.fragments.size(); ++i) {
      Fragment& fragment = info.fragments[i];
      fragment.stocs = placement.fragments[i];
      files.push_back({{info.uuid, static_cast<uint32_t>(i)},
                       fragment.stocs,
                       std::string_view(output.data).substr(fragment.offset, fragment.size)});
    }
    files.push_back({{info.uuid, kMetadataPart}, info.metadata_stocs, output.metadata});
    const Status status = client_->WriteAll(files, creator, Now() + options_.write_deadline_ns);
    if (!status.ok()) {
      DeleteTable(info);
      return Annotate(status, StrCat("table ", info.uuid.ToString()));
    }
    return std::move(info);
  }

  StatusOr<std::string> ReadMetadata(const TableInfo& info) override {
    return ReadCopies(info.metadata_stocs, {info.uuid, kMetadataPart}, 0, info.metadata_size, Now() + options_.read_deadline_ns);
  }

  StatusOr<std::string> ReadData(const TableInfo& info, uint64_t offset, size_t size) override {
    const Nanos deadline = Now() + options_.read_deadline_ns;
    std::string bytes;
    while (bytes.size() < size) {
      const uint64_t at = offset + bytes.size();
      const int part = FragmentAt(info, at);
      if (part < 0) return absl::OutOfRangeError(StrCat("table ", info.uuid.ToString(), " has no byte ", at));
      const Fragment& fragment = info.fragments[static_cast<size_t>(part)];
      const uint64_t n = std::min<uint64_t>(size - bytes.size(), fragment.offset + fragment.size - at);
      NOVA_ASSIGN_OR_RETURN(std::string piece, ReadCopies(fragment.stocs, {info.uuid, static_cast<uint32_t>(part)},
                                                          at - fragment.offset, n, deadline));
      if (bytes.empty()) {
        bytes = std::move(piece);
      } else {
        bytes += piece;
      }
    }
    return bytes;
  }

  void ReadBlock(Executor* on, const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns, ReadDone done) override;

  void DeleteTable(const TableInfo& info) override {
    std::map<StocId, std::vector<StocFileId>> files;
    for (size_t i = 0; i < info.fragments.size(); ++i) {
      for (const StocId stoc : info.fragments[i].stocs) files[stoc].push_back({info.uuid, static_cast<uint32_t>(i)});
    }
    for (const StocId stoc : info.metadata_stocs) files[stoc].push_back({info.uuid, kMetadataPart});
    for (auto& [stoc, of_stoc] : files) client_->DeleteFilesLater(stoc, std::move(of_stoc));
  }

 private:
  class BlockRead;

  // The index of the fragment with that logical byte; -1: none.
  static int FragmentAt(const TableInfo& info, uint64_t offset) {
    const auto after = std::upper_bound(info.fragments.begin(), info.fragments.end(), offset,
                                        [](uint64_t at, const Fragment& f) { return at < f.offset; });
    if (after == info.fragments.begin()) return -1;
    const auto it = after - 1;
    return offset - it->offset < it->size ? static_cast<int>(it - info.fragments.begin()) : -1;
  }

  // Live ones first, the shorter queue first; equal ones in turn.
  std::vector<StocId> InOrder(const std::vector<StocId>& copies) {
    std::vector<StocId> order = copies;
    if (order.size() < 2) return order;
    const size_t turn = turn_.fetch_add(1, std::memory_order_relaxed) % order.size();
    std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn), order.end());
    std::vector<std::tuple<bool, uint32_t, size_t>> rank;
    for (size_t i = 0; i < order.size(); ++i) rank.emplace_back(!client_->IsLive(order[i]), client_->queue_depth(order[i]), i);
    std::sort(rank.begin(), rank.end());
    std::vector<StocId> sorted;
    for (const auto& [dead, depth, i] : rank) sorted.push_back(order[i]);
    return sorted;
  }

  StatusOr<std::string> ReadCopies(const std::vector<StocId>& copies, const StocFileId& file, uint64_t offset, uint64_t size,
                                   Nanos deadline_ns) {
    Failures failures;
    for (;;) {
      failures.NextRound();
      const std::vector<StocId> order = InOrder(copies);
      for (const StocId stoc : order) {
        auto bytes = client_->ReadFileBlocking(stoc, file, offset, size, DeadlineOfTry(deadline_ns, order.size() > 1));
        if (bytes.ok() && bytes->size() == size) return bytes;
        failures.Add(bytes.ok() ? ShortRead(stoc, bytes->size(), size) : bytes.status());
      }
      if (!failures.any_retryable() || Now() + kPauseBetweenRounds >= deadline_ns) return failures.ToStatus(file);
      SleepFor(kPauseBetweenRounds);
    }
  }

  StocClient* const client_;
  const std::function<Xchg*(Executor*)> xchg_of_;
  const StocSstableStoreOptions options_;
  std::atomic<size_t> turn_{0};
};

// One block, from one copy after the other, on one xchg thread.
class StocSstableStore::BlockRead : public std::enable_shared_from_this<BlockRead> {
 public:
  BlockRead(StocSstableStore* store, Xchg* xchg, std::vector<StocId> copies, const StocFileId& file, uint64_t offset, uint32_t size,
            Nanos deadline_ns, ReadDone done)
      : store_(store), xchg_(xchg), copies_(std::move(copies)), file_(file), offset_(offset), size_(size), deadline_ns_(deadline_ns),
        done_(std::move(done)) {}

  void Round() {
    failures_.NextRound();
    order_ = store_->InOrder(copies_);
    next_ = 0;
    Try();
  }

 private:
  void Try() {
    if (next_ == order_.size()) return RoundOver();
    const StocId stoc = order_[next_++];
    store_->client_->ReadFile(xchg_, stoc, file_, offset_, size_, DeadlineOfTry(deadline_ns_, order_.size() > 1),
                              [self = shared_from_this(), stoc](Outcome o, std::string_view bytes) { self->Answered(stoc, o, bytes); });
  }

  void Answered(StocId stoc, Outcome outcome, std::string_view bytes) {
    if (outcome == Outcome::kOk && bytes.size() == size_) return done_(std::string(bytes));
    failures_.Add(outcome == Outcome::kOk ? ShortRead(stoc, bytes.size(), size_)
                                          : ToStatus(outcome, StrCat("stoc ", stoc.value(), ": ", std::string(OutcomeName(outcome)))));
    Try();
  }

  void RoundOver() {
    const Nanos again = Now() + kPauseBetweenRounds;
    if (!failures_.any_retryable() || again >= deadline_ns_) return done_(failures_.ToStatus(file_));
    xchg_->RunAt(again, [self = shared_from_this()] { self->Round(); });
  }

  StocSstableStore* const store_;
  Xchg* const xchg_;
  const std::vector<StocId> copies_;
  const StocFileId file_;
  const uint64_t offset_;
  const uint32_t size_;
  const Nanos deadline_ns_;
  ReadDone done_;
  std::vector<StocId> order_;
  size_t next_ = 0;
  Failures failures_;
};

void StocSstableStore::ReadBlock(Executor* on, const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns, ReadDone done) {
  Xchg* const xchg = xchg_of_(on);
  const int part = FragmentAt(info, handle.offset);
  const Fragment* const fragment = part < 0 ? nullptr : &info.fragments[static_cast<size_t>(part)];
  const bool inside = fragment != nullptr && !fragment->stocs.empty() && handle.size <= kMaxReadBytes &&
                      handle.offset - fragment->offset + handle.size <= fragment->size;
  if (!inside) {
    xchg->Submit([done = std::move(done), text = StrCat("table ", info.uuid.ToString(), " has no block of ", handle.size, " bytes at ",
                                                        handle.offset)]() mutable { done(absl::OutOfRangeError(text)); });
    return;
  }
  const Nanos deadline = std::min(deadline_ns, Now() + options_.read_deadline_ns);
  std::make_shared<BlockRead>(this, xchg, fragment->stocs, StocFileId{info.uuid, static_cast<uint32_t>(part)},
                              handle.offset - fragment->offset, handle.size, deadline, std::move(done))
      ->Round();
}

}  // namespace

std::unique_ptr<SstableStore> NewStocSstableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                                                  const StocSstableStoreOptions& options) {
  return std::make_unique<StocSstableStore>(client, std::move(xchg_of), options);
}

}  // namespace nova
