#include "ltc/engine/level0_writer.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "common/base/thread.h"
#include "common/sstable/compaction_job.h"
#include "common/sstable/table_builder.h"

namespace nova {
namespace {

// The tables of one run, in order. Where they lie on several disks a few are stored at a time, each by a
// thread of its own: one after another they would take one disk at a time, and memory waits for all of them.
class RunWriter {
 public:
  RunWriter(const RangeContext& context, TableAccess* tables, const Level0Run& run,
            const FlushProgress& progress)
      : context_(context),
        tables_(tables),
        run_(run),
        progress_(progress),
        creator_{context.spec.id, context.spec.epoch, run.job},
        table_bytes_(context.options.compaction.table_size_bytes),
        least_bytes_(context.options.compaction.least_table_bytes / 2),
        most_storing_(context.services->one_disk
                          ? 0
                          : std::clamp<size_t>(kStoringBytes / table_bytes_, 1,
                                               std::min(context.services->host->Disks(), kMostStoring))) {}

  // An entry was passed, and added or left out.
  void Pass(uint64_t bytes) {
    constexpr uint64_t kStepBytes = 256 << 10;
    ++unwritten_.entries;
    if ((passed_bytes_ += bytes) < kStepBytes) return;
    passed_bytes_ = 0;
    if (progress_.on_passed) progress_.on_passed();
    if (streams_) TellWritten(std::exchange(unwritten_, {}));
  }
  // REQUIRES: entries in internal key order.
  Status Add(std::string_view stored_key, std::string_view internal_key, std::string_view value) {
    if (EndsTable(stored_key)) NOVA_RETURN_IF_ERROR(FinishTable(most_storing_ > 0));
    if (run_.load != nullptr) Count(stored_key, internal_key.size() + value.size());
    if (builder_ == nullptr) StartTable();
    builder_->Add(internal_key, value);
    ++unwritten_.stored;
    unwritten_.stored_bytes += internal_key.size() + value.size();
    last_key_.assign(stored_key);
    return OkStatus();
  }
  Status Finish() {
    if (run_.load != nullptr) Count({}, 0);
    if (builder_ != nullptr) NOVA_RETURN_IF_ERROR(FinishTable(/*by_thread=*/false));
    while (!storing_.empty()) NOVA_RETURN_IF_ERROR(AddStored());
    TellWritten(std::exchange(unwritten_, {}));
    return OkStatus();
  }
  // The tables so far, for an edit; or, after an error, given up, for they are in no edit.
  VersionEdit TakeEdit() { return std::move(edit_); }
  Status GiveUp(const Status& why) {
    while (!storing_.empty()) AddStored().IgnoreError();
    for (const VersionEdit::Add& add : edit_.adds) context_.services->garbage(add.table);
    return why;
  }

 private:
  static constexpr uint64_t kStoringBytes = 16 << 20;  // of tables that are stored at a time, about
  static constexpr size_t kMostStoring = 8;
  // A table that is complete, until it is in edit_.
  struct Storing {
    FlushedEntries part;  // that progress_ is to be told of
    TableBuilder::Output output;
    StatusOr<TableInfo> table = absl::UnknownError("not stored yet");
    std::shared_ptr<const TableReader> reader;
    std::unique_ptr<Thread> thread;  // that stores it; null: it is stored
  };

  // The table under way ends before this key. Versions of one key stay in one table, so that tables of a run
  // never overlap.
  bool EndsTable(std::string_view stored_key) {
    bool crosses = false;  // a bound of Dranges
    for (; next_cut_ < run_.cuts.size() && run_.cuts[next_cut_] <= stored_key; ++next_cut_) crosses = true;
    if (builder_ == nullptr) return false;
    const uint64_t bytes = builder_->data_size();
    return (crosses && bytes >= least_bytes_) || (bytes >= table_bytes_ && stored_key != last_key_);
  }

  // Tells the histogram of a key when it has ended.
  void Count(std::string_view stored_key, uint64_t bytes) {
    if (key_bytes_ > 0 && stored_key != last_key_)
      run_.load->Add(last_key_, static_cast<double>(std::exchange(key_bytes_, 0)));
    key_bytes_ += bytes;
  }

  void TellWritten(const FlushedEntries& part) {
    if (part.entries > 0 && progress_.on_written) progress_.on_written(part);
  }

  void StartTable() {
    const Uuid uuid = Uuid::Generate();
    auto sink = context_.services->store->StartTable(uuid, TableLife::kShort);
    streams_ = sink != nullptr;
    builder_ = std::make_unique<TableBuilder>(tables_->OptionsAt(0), uuid, std::move(sink));
    builder_->Reserve(table_bytes_);
  }

  // Stores the table, or has a thread store it, and waits until no more are being stored than may be.
  Status FinishTable(bool by_thread) {
    storing_.push_back(std::make_unique<Storing>());
    Storing* const last = storing_.back().get();
    last->output = builder_->Finish();
    last->part = std::exchange(unwritten_, {});
    builder_ = nullptr;
    const DropRules& rules = *run_.rules;
    if (rules.tombstones != nullptr) SetTombstonesApplied(rules.tombstones_applied, &last->output.info);
    const auto store = [this, last] {
      last->table = tables_->StoreTable(std::move(last->output), creator_, &last->reader);
    };
    if (by_thread) {
      last->thread = std::make_unique<Thread>("ltc.store", store);
    } else {
      store();
    }
    while (storing_.size() > most_storing_) NOVA_RETURN_IF_ERROR(AddStored());
    return OkStatus();
  }

  // Adds the first table that is being stored to the edit. Waits for it.
  Status AddStored() {
    const std::unique_ptr<Storing> first = std::move(storing_.front());
    storing_.pop_front();
    if (first->thread != nullptr) first->thread->Join();
    NOVA_RETURN_IF_ERROR(first->table.status());
    TellWritten(first->part);
    edit_.adds.push_back({0, run_.order, *std::move(first->table), std::move(first->reader)});
    return OkStatus();
  }

  const RangeContext& context_;
  TableAccess* const tables_;
  const Level0Run& run_;
  const FlushProgress& progress_;
  const Creator creator_;
  const uint64_t table_bytes_;                    // at which a table ends
  const uint64_t least_bytes_;                    // a table with less does not end at a bound of Dranges
  const size_t most_storing_;                     // tables that are stored while the next one is built
  std::unique_ptr<TableBuilder> builder_;         // null between tables
  std::string last_key_;                          // the stored key that was added last
  size_t next_cut_ = 0;                           // the first of run_.cuts behind last_key_
  uint64_t key_bytes_ = 0;                        // of last_key_, not counted yet
  bool streams_ = false;                          // the store has what was added, all but some KB
  uint64_t passed_bytes_ = 0;                     // since progress_.on_passed was called
  FlushedEntries unwritten_;                      // that progress_ was not told of, behind those of storing_
  std::deque<std::unique_ptr<Storing>> storing_;  // in the order of their keys
  VersionEdit edit_;
};

}  // namespace

StatusOr<VersionEdit> WriteLevel0(const RangeContext& context, TableAccess* tables, const Level0Run& run,
                                  OverwriteProbe* younger, const FlushProgress& progress) {
  const DropRules& rules = *run.rules;
  Iterator* const sorted = run.sorted;
  VersionFilter filter(rules.snapshots, rules.floor, /*bottom=*/false, rules.now_ms, rules.tombstones);
  RunWriter writer(context, tables, run, progress);
  for (sorted->SeekToFirst(); sorted->Valid(); sorted->Next()) {
    const std::string_view internal_key = sorted->key(), value = sorted->value();
    ParsedInternalKey key;
    if (!ParseInternalKey(internal_key, &key))
      return writer.GiveUp(absl::InternalError("memtable holds a malformed key"));
    if (run.writes != nullptr) run.writes->Add(key);
    if (filter.Keep(key, value) && !younger->Replaces(key)) {
      if (const Status s = writer.Add(key.stored_key, internal_key, value); !s.ok()) return writer.GiveUp(s);
    }
    writer.Pass(internal_key.size() + value.size());
  }
  Status s = sorted->state() == Iterator::State::kError ? sorted->status() : OkStatus();
  if (s.ok()) s = writer.Finish();
  if (!s.ok()) return writer.GiveUp(s);
  return writer.TakeEdit();
}

}  // namespace nova
