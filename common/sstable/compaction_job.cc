// CompactionJob   varint32 size of the rest | u8 version = 3 | varint64 range | varint64 epoch |
//                 varint64 job_id | varint32 n | n * TableInfo | from | to | varint32 n |
//                 n * varint64 snapshot | varint64 floor | u8 bottom | u64 now_ms | varint32 n |
//                 n * (u64 hi | u64 lo) | varint64 max_table_size | varint32 n | n * cut point |
//                 varint64 block_size | varint32 restart_interval | varint32 filter_bits_per_key |
//                 u8 compression | u64 ns until the deadline, 0: none | varint64 tombstones_applied |
//                 varint32 n | n * (begin | end | varint64 sequence)
//
// CompactionResult   varint32 size of the rest | u8 version = 1 | varint64 bytes_read |
//                    varint64 bytes_written | varint64 entries_in | varint64 entries_dropped | varint32 n |
//                    n * TableInfo
//
// Keys are length-prefixed.
#include "common/sstable/compaction_job.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/sstable/concatenating_iterator.h"
#include "common/sstable/merging_iterator.h"
#include "common/sstable/table_iterator.h"

namespace nova {
namespace {

constexpr char kVersion = 3;
constexpr char kResultVersion = 1;
constexpr char kAppliedProperty[] = "range_tombstones_applied";  // a varint64
// What a job reads ahead, of all inputs that it reads side by side. Of mapped tables it lies in the page
// cache until it is used, where there may be room for little more; of others it is in no pool.
constexpr size_t kReadAheadBytes = size_t{16} << 20;
constexpr size_t kLeastPieceBytes = size_t{256} << 10, kMostPieceBytes = size_t{1} << 20;  // of one input
constexpr uint64_t kMaxReserveBytes = uint64_t{256} << 20;
constexpr size_t kNoStripe = SIZE_MAX;

Status Malformed(absl::string_view what) { return absl::DataLossError(StrCat("compaction job: bad ", what)); }

// A count of elements that take at least `min_bytes` each.
bool GetCount(std::string_view* in, size_t min_bytes, uint32_t* n) {
  return GetVarint32(in, n) && *n <= in->size() / min_bytes;
}

Status ParseLists(std::string_view* in, CompactionJob* job) {
  uint32_t n;
  if (!GetCount(in, 1, &n)) return Malformed("number of inputs");
  for (; n > 0; --n) {
    NOVA_ASSIGN_OR_RETURN(TableInfo info, TableInfo::Parse(in));
    job->inputs.push_back(std::move(info));
  }
  if (!GetLengthPrefixed(in, &job->from) || !GetLengthPrefixed(in, &job->to)) return Malformed("bounds");
  if (!GetCount(in, 1, &n)) return Malformed("number of snapshots");
  for (; n > 0; --n) {
    uint64_t snapshot;
    if (!GetVarint64(in, &snapshot)) return Malformed("snapshot");
    job->snapshots.push_back(snapshot);
  }
  return OkStatus();
}

Status ParseOutputs(std::string_view* in, CompactionJob* job) {
  uint32_t n;
  if (!GetCount(in, 16, &n)) return Malformed("number of output ids");
  for (; n > 0; --n) {
    Uuid uuid;
    if (!GetFixed64(in, &uuid.hi) || !GetFixed64(in, &uuid.lo)) return Malformed("output id");
    job->output_uuids.push_back(uuid);
  }
  if (!GetVarint64(in, &job->max_table_size_bytes)) return Malformed("table size");
  if (!GetCount(in, 1, &n)) return Malformed("number of cut points");
  for (; n > 0; --n) {
    std::string key;
    if (!GetLengthPrefixed(in, &key)) return Malformed("cut point");
    job->cut_points.push_back(std::move(key));
  }
  uint64_t block_size;
  uint32_t restart_interval, filter_bits;
  if (!GetVarint64(in, &block_size) || !GetVarint32(in, &restart_interval) ||
      !GetVarint32(in, &filter_bits) || restart_interval > INT32_MAX || filter_bits > INT32_MAX ||
      in->empty() || static_cast<unsigned char>(in->front()) >= kCompressions) {
    return Malformed("table options");
  }
  job->table_options = {block_size, static_cast<int>(restart_interval), static_cast<int>(filter_bits),
                        static_cast<Compression>(in->front())};
  in->remove_prefix(1);
  return OkStatus();
}

Status ParseTombstones(std::string_view* in, CompactionJob* job) {
  uint32_t n;
  if (!GetVarint64(in, &job->tombstones_applied) || !GetCount(in, 3, &n))
    return Malformed("number of range tombstones");
  std::vector<RangeTombstoneRef> all;
  for (SequenceNumber last = 0; n > 0; --n) {
    RangeTombstone t;
    if (!GetLengthPrefixed(in, &t.begin) || !GetLengthPrefixed(in, &t.end) || !GetVarint64(in, &t.sequence) ||
        t.begin >= t.end || t.sequence <= last) {
      return Malformed("range tombstone");
    }
    last = t.sequence;
    all.push_back(std::make_shared<const RangeTombstone>(std::move(t)));
  }
  job->range_tombstones = RangeTombstones::Of(std::move(all));
  return OkStatus();
}

Status ParseBody(std::string_view in, Nanos now, CompactionJob* job) {
  uint64_t range, epoch;
  if (in.empty()) return Malformed("length");
  if (in.front() != kVersion) return Malformed(StrCat("version ", static_cast<int>(in.front())));
  in.remove_prefix(1);
  if (!GetVarint64(&in, &range) || !GetVarint64(&in, &epoch) || !GetVarint64(&in, &job->job_id)) {
    return Malformed("name");
  }
  job->range = RangeId(range);
  job->epoch = Epoch(epoch);
  NOVA_RETURN_IF_ERROR(ParseLists(&in, job));
  if (!GetVarint64(&in, &job->floor)) return Malformed("floor");
  if (in.empty() || static_cast<unsigned char>(in.front()) > 1) return Malformed("bottom");
  job->bottom = in.front() == 1;
  in.remove_prefix(1);
  uint64_t now_ms, left_ns;
  if (!GetFixed64(&in, &now_ms)) return Malformed("now");
  NOVA_RETURN_IF_ERROR(ParseOutputs(&in, job));
  if (!GetFixed64(&in, &left_ns) || left_ns > static_cast<uint64_t>(INT64_MAX - now)) {
    return Malformed("deadline");
  }
  NOVA_RETURN_IF_ERROR(ParseTombstones(&in, job));
  job->now_ms = static_cast<int64_t>(now_ms);
  job->deadline_ns = left_ns == 0 ? 0 : now + static_cast<Nanos>(left_ns);
  return in.empty() ? OkStatus() : Malformed("length");
}

Status ParseResult(std::string_view in, CompactionResult* result) {
  if (in.empty()) return Malformed("length of its result");
  if (in.front() != kResultVersion)
    return Malformed(StrCat("version of its result: ", static_cast<int>(in.front())));
  in.remove_prefix(1);
  uint32_t n;
  if (!GetVarint64(&in, &result->bytes_read) || !GetVarint64(&in, &result->bytes_written) ||
      !GetVarint64(&in, &result->entries_in) || !GetVarint64(&in, &result->entries_dropped) ||
      !GetCount(&in, 1, &n)) {
    return Malformed("counts of its result");
  }
  for (; n > 0; --n) {
    NOVA_ASSIGN_OR_RETURN(TableInfo info, TableInfo::Parse(&in));
    result->outputs.push_back(std::move(info));
  }
  return in.empty() ? OkStatus() : Malformed("length of its result");
}

// The bytes of one input: read in large pieces that end with a block, handed out block by block.
class ReadAhead {
 public:
  ReadAhead(CompactionStorage* storage, std::shared_ptr<const TableReader> table, size_t most_bytes)
      : storage_(storage), table_(std::move(table)), most_bytes_(most_bytes) {
    table_->ForEachUsedBlock([this](const BlockHandle& h) { blocks_.push_back(h); });
  }

  StatusOr<BlockRef> Read(const BlockHandle& handle, uint64_t* bytes_read) {
    const uint64_t end = handle.offset + handle.size;
    if (handle.offset < piece_start_ || end > piece_start_ + piece_.size()) {
      NOVA_RETURN_IF_ERROR(ReadPiece(handle));
      *bytes_read += piece_.size();
    }
    auto block = table_->CheckBlock(handle, piece_.substr(handle.offset - piece_start_, handle.size));
    if (end == piece_start_ + piece_.size()) piece_ = {};
    return block;
  }

 private:
  Status ReadPiece(const BlockHandle& first) {
    const auto begin = std::lower_bound(blocks_.begin(), blocks_.end(), first);
    if (begin == blocks_.end() || *begin != first) return Error(first.offset, "no block begins there");
    auto end = begin + 1;
    while (end != blocks_.end() && end->offset + end->size <= first.offset + most_bytes_) ++end;
    const uint64_t bytes = (end - 1)->offset + (end - 1)->size - first.offset;
    piece_ = {};
    NOVA_ASSIGN_OR_RETURN(piece_, storage_->ReadBlocks(table_->places(), {begin, end}));
    piece_start_ = first.offset;
    if (piece_.size() == bytes) return OkStatus();
    return Error(first.offset, StrCat("a read of ", bytes, " bytes gave ", piece_.size()));
  }
  Status Error(uint64_t offset, absl::string_view what) const {
    return absl::DataLossError(StrCat("table ", table_->info().uuid.ToString(), " at ", offset, ": ", what));
  }

  CompactionStorage* storage_;
  std::shared_ptr<const TableReader> table_;
  size_t most_bytes_;  // of a piece, if its first block is not larger
  std::vector<BlockHandle> blocks_;
  std::string piece_;
  uint64_t piece_start_ = 0;
};

class Compaction {
 public:
  Compaction(const CompactionJob& job, CompactionStorage* storage, const std::function<bool()>& cancelled)
      : job_(job),
        storage_(storage),
        cancelled_(cancelled),
        filter_(job.snapshots, job.floor, job.bottom, job.now_ms, job.range_tombstones) {}

  StatusOr<CompactionResult> Run() {
    NOVA_RETURN_IF_ERROR(CheckGoOn());
    NOVA_RETURN_IF_ERROR(OpenInputs());
    job_.from.empty() ? merged_->SeekToFirst() : merged_->Seek(MakeSeekKey(job_.from));
    for (;;) {
      while (merged_->state() == Iterator::State::kNeedBlocks) NOVA_RETURN_IF_ERROR(SupplyBlocks());
      if (!merged_->Valid() || (!job_.to.empty() && StoredKeyOf(merged_->key()) >= job_.to)) break;
      NOVA_RETURN_IF_ERROR(TakeEntry());
      merged_->Next();
    }
    if (merged_->state() == Iterator::State::kError) return merged_->status();
    NOVA_RETURN_IF_ERROR(FinishOutput());
    result_.expired_by_ms = filter_.expired_by_ms();
    return std::move(result_);
  }

 private:
  Status CheckGoOn() const;
  Status OpenInputs();
  // One table, of which `piece_bytes` are read at once.
  StatusOr<std::unique_ptr<Iterator>> OpenInput(const TableInfo& info, size_t piece_bytes);
  Status SupplyBlocks();
  Status TakeEntry();
  Status StartOutput();
  Status FinishOutput();
  bool CutsBefore(std::string_view stored_key);

  const CompactionJob& job_;
  CompactionStorage* const storage_;
  const std::function<bool()>& cancelled_;
  VersionFilter filter_;
  CompactionResult result_;

  std::unordered_map<const TableIterator*, ReadAhead> sources_;
  std::unique_ptr<Iterator> merged_;
  uint64_t input_bytes_ = 0;
  std::vector<BlockRequest> needed_;
  std::string last_key_;  // the entry taken last

  std::unique_ptr<TableBuilder> builder_;  // null between outputs
  std::string last_output_key_;            // stored key of the entry added last
  size_t next_cut_ = 0;                    // the first cut point past last_output_key_
};

Status Compaction::CheckGoOn() const {
  if (cancelled_ && cancelled_()) return absl::CancelledError(StrCat("compaction job ", job_.job_id));
  if (job_.deadline_ns != 0 && Now() >= job_.deadline_ns) {
    return absl::DeadlineExceededError(StrCat("compaction job ", job_.job_id));
  }
  return OkStatus();
}

// Inputs that follow one another become one child of the merge.
Status Compaction::OpenInputs() {
  std::vector<const TableInfo*> inputs;
  for (const TableInfo& info : job_.inputs) {
    if (info.smallest.size() < kInternalTrailerBytes || info.largest.size() < kInternalTrailerBytes) {
      return absl::InvalidArgumentError(StrCat("table ", info.uuid.ToString(), ": no key range"));
    }
    inputs.push_back(&info);
  }
  std::stable_sort(inputs.begin(), inputs.end(), [](const TableInfo* a, const TableInfo* b) {
    return CompareInternalKeys(a->smallest, b->smallest) < 0;
  });
  std::vector<std::vector<const TableInfo*>> runs;
  for (const TableInfo* info : inputs) {
    auto run = std::find_if(runs.begin(), runs.end(), [&](const auto& r) {
      return CompareInternalKeys(r.back()->largest, info->smallest) < 0;
    });
    if (run == runs.end()) run = runs.emplace(run);
    run->push_back(info);
  }
  const size_t piece_bytes =
      std::clamp(kReadAheadBytes / std::max<size_t>(runs.size(), 1), kLeastPieceBytes, kMostPieceBytes);
  std::vector<std::unique_ptr<Iterator>> children;
  for (const auto& run : runs) {
    std::vector<std::unique_ptr<Iterator>> tables;
    for (const TableInfo* info : run) {
      NOVA_ASSIGN_OR_RETURN(tables.emplace_back(), OpenInput(*info, piece_bytes));
    }
    children.push_back(NewConcatenatingIterator(std::move(tables)));
  }
  merged_ = NewMergingIterator(std::move(children));
  return OkStatus();
}

StatusOr<std::unique_ptr<Iterator>> Compaction::OpenInput(const TableInfo& info, size_t piece_bytes) {
  NOVA_ASSIGN_OR_RETURN(auto table, storage_->OpenTable(info));
  if (table->info().uuid != info.uuid || table->info().use_from != info.use_from ||
      table->info().use_to != info.use_to) {
    return absl::InternalError(
        StrCat("table ", info.uuid.ToString(), ": opened with another table's bounds"));
  }
  input_bytes_ += UsedBytes(table->info());
  auto iterator = std::make_unique<TableIterator>(table, nullptr, TableIterator::Check::kEach);
  iterator->ReadAll(piece_bytes);
  sources_.emplace(iterator.get(), ReadAhead(storage_, std::move(table), piece_bytes));
  return std::unique_ptr<Iterator>(std::move(iterator));
}

Status Compaction::SupplyBlocks() {
  needed_.clear();
  merged_->AppendNeeded(&needed_);
  for (const BlockRequest& request : needed_) {
    NOVA_RETURN_IF_ERROR(CheckGoOn());
    ReadAhead& source = sources_.at(request.iterator);
    NOVA_ASSIGN_OR_RETURN(BlockRef block, source.Read(request.handle, &result_.bytes_read));
    request.iterator->Supply(request.handle, std::move(block));
  }
  merged_->Resume();
  return OkStatus();
}

Status Compaction::TakeEntry() {
  const std::string_view key = merged_->key(), value = merged_->value();
  ParsedInternalKey parsed;
  if (!ParseInternalKey(key, &parsed))
    return absl::DataLossError(StrCat("compaction job ", job_.job_id, ": bad key"));
  if (!last_key_.empty() && CompareInternalKeys(last_key_, key) >= 0) {
    return absl::DataLossError(StrCat("compaction job ", job_.job_id, ": an input is not in order"));
  }
  last_key_.assign(key);
  ++result_.entries_in;
  if (!filter_.Keep(parsed, value)) {
    ++result_.entries_dropped;
    return OkStatus();
  }
  if (builder_ == nullptr || parsed.stored_key != last_output_key_) {
    if (CutsBefore(parsed.stored_key)) NOVA_RETURN_IF_ERROR(FinishOutput());
    if (builder_ == nullptr) NOVA_RETURN_IF_ERROR(StartOutput());
    last_output_key_.assign(parsed.stored_key);
  }
  builder_->Add(key, value);
  return OkStatus();
}

// True if the output under way must not go on with this key. Advances past the cut points up to it.
bool Compaction::CutsBefore(std::string_view stored_key) {
  const size_t before = next_cut_;
  while (next_cut_ < job_.cut_points.size() && job_.cut_points[next_cut_] <= stored_key) ++next_cut_;
  // The last reserved id takes all that is left: inputs that were compressed better than outputs are may give
  // more than was foreseen.
  const bool last = result_.outputs.size() + 1 == job_.output_uuids.size();
  if (builder_ == nullptr || last) return false;
  if (next_cut_ != before) return true;
  return job_.max_table_size_bytes != 0 && builder_->data_size() >= job_.max_table_size_bytes;
}

Status Compaction::StartOutput() {
  if (result_.outputs.size() == job_.output_uuids.size()) {
    return absl::InternalError(StrCat("compaction job ", job_.job_id, ": all ", job_.output_uuids.size(),
                                      " reserved table ids are used"));
  }
  const Uuid& uuid = job_.output_uuids[result_.outputs.size()];
  builder_ = std::make_unique<TableBuilder>(job_.table_options, uuid, storage_->StartTable(uuid));
  const uint64_t most =
      job_.max_table_size_bytes == 0 ? input_bytes_ : std::min(input_bytes_, job_.max_table_size_bytes);
  builder_->Reserve(std::min(most + job_.table_options.block_size_bytes, kMaxReserveBytes));
  return OkStatus();
}

Status Compaction::FinishOutput() {
  if (builder_ == nullptr) return OkStatus();
  TableBuilder::Output output = builder_->Finish();
  builder_ = nullptr;
  result_.bytes_written += output.info.data_size + output.metadata.size();
  if (job_.range_tombstones != nullptr) SetTombstonesApplied(job_.tombstones_applied, &output.info);
  NOVA_ASSIGN_OR_RETURN(TableInfo info, storage_->WriteTable(std::move(output)));
  result_.outputs.push_back(std::move(info));
  return OkStatus();
}

}  // namespace

void CompactionJob::AppendTo(std::string* dst, Nanos now) const {
  std::string body(1, kVersion);
  PutVarint64(&body, range.value());
  PutVarint64(&body, epoch.value());
  PutVarint64(&body, job_id);
  PutVarint32(&body, static_cast<uint32_t>(inputs.size()));
  for (const TableInfo& info : inputs) info.AppendTo(&body);
  PutLengthPrefixed(&body, from);
  PutLengthPrefixed(&body, to);
  PutVarint32(&body, static_cast<uint32_t>(snapshots.size()));
  for (const SequenceNumber s : snapshots) PutVarint64(&body, s);
  PutVarint64(&body, floor);
  body.push_back(bottom ? 1 : 0);
  PutFixed64(&body, static_cast<uint64_t>(now_ms));
  PutVarint32(&body, static_cast<uint32_t>(output_uuids.size()));
  for (const Uuid& uuid : output_uuids) {
    PutFixed64(&body, uuid.hi);
    PutFixed64(&body, uuid.lo);
  }
  PutVarint64(&body, max_table_size_bytes);
  PutVarint32(&body, static_cast<uint32_t>(cut_points.size()));
  for (const std::string& key : cut_points) PutLengthPrefixed(&body, key);
  PutVarint64(&body, table_options.block_size_bytes);
  PutVarint32(&body, static_cast<uint32_t>(std::max(table_options.restart_interval, 0)));
  PutVarint32(&body, static_cast<uint32_t>(std::max(table_options.filter_bits_per_key, 0)));
  body.push_back(static_cast<char>(table_options.compression));
  const Nanos left_ns = deadline_ns == 0 ? 0 : std::max<Nanos>(deadline_ns - now, 1);
  PutFixed64(&body, static_cast<uint64_t>(left_ns));
  PutVarint64(&body, tombstones_applied);
  PutVarint32(&body, range_tombstones == nullptr ? 0 : static_cast<uint32_t>(range_tombstones->size()));
  if (range_tombstones != nullptr) {
    for (const RangeTombstoneRef& t : range_tombstones->all()) {
      PutLengthPrefixed(&body, t->begin);
      PutLengthPrefixed(&body, t->end);
      PutVarint64(&body, t->sequence);
    }
  }
  PutLengthPrefixed(dst, body);
}

StatusOr<CompactionJob> CompactionJob::Parse(std::string_view* input, Nanos now) {
  std::string_view rest = *input, body;
  if (!GetLengthPrefixed(&rest, &body)) return Malformed("length");
  CompactionJob job;
  NOVA_RETURN_IF_ERROR(ParseBody(body, now, &job));
  *input = rest;
  return job;
}

void CompactionResult::AppendTo(std::string* dst) const {
  std::string body(1, kResultVersion);
  PutVarint64(&body, bytes_read);
  PutVarint64(&body, bytes_written);
  PutVarint64(&body, entries_in);
  PutVarint64(&body, entries_dropped);
  PutVarint32(&body, static_cast<uint32_t>(outputs.size()));
  for (const TableInfo& info : outputs) info.AppendTo(&body);
  PutLengthPrefixed(dst, body);
}

StatusOr<CompactionResult> CompactionResult::Parse(std::string_view* input) {
  std::string_view rest = *input, body;
  if (!GetLengthPrefixed(&rest, &body)) return Malformed("length of its result");
  CompactionResult result;
  NOVA_RETURN_IF_ERROR(ParseResult(body, &result));
  *input = rest;
  return result;
}

StatusOr<CompactionResult> RunCompaction(const CompactionJob& job, CompactionStorage* storage,
                                         const std::function<bool()>& cancelled) {
  if (!std::is_sorted(job.cut_points.begin(), job.cut_points.end())) {
    return absl::InvalidArgumentError(
        StrCat("compaction job ", job.job_id, ": cut points are not ascending"));
  }
  return Compaction(job, storage, cancelled).Run();
}

void SetTombstonesApplied(SequenceNumber upto, TableInfo* info) {
  std::string& value = info->properties[kAppliedProperty];
  value.clear();
  PutVarint64(&value, upto);
}

SequenceNumber TombstonesApplied(const TableInfo& info) {
  const auto property = info.properties.find(kAppliedProperty);
  if (property == info.properties.end()) return 0;
  uint64_t upto;
  std::string_view value = property->second;
  return GetVarint64(&value, &upto) ? upto : 0;
}

bool MayHoldHidden(const TableInfo& info, const RangeTombstones& tombstones, SequenceNumber upto) {
  const SequenceNumber newest = tombstones.Overlapping(UsedKeys(info), upto);
  return newest > info.min_sequence && newest > TombstonesApplied(info);
}

VersionFilter::VersionFilter(std::vector<SequenceNumber> snapshots, SequenceNumber floor, bool bottom,
                             int64_t now_ms, RangeTombstonesRef range_tombstones)
    : snapshots_(std::move(snapshots)),
      floor_(floor),
      bottom_(bottom),
      now_ms_(now_ms),
      range_tombstones_(std::move(range_tombstones)),
      last_stripe_(kNoStripe) {
  std::sort(snapshots_.begin(), snapshots_.end());
}

// A stripe is the sequence numbers above one snapshot, up to and including the next. Stripe 0 is the oldest:
// what it hides is needed by nobody, so a tombstone there hides nothing once it is itself at the bottom.
bool VersionFilter::Keep(const ParsedInternalKey& key, std::string_view value) {
  if (last_stripe_ == kNoStripe || key.stored_key != last_key_) {
    last_key_.assign(key.stored_key);
    last_stripe_ = kNoStripe;
  }
  const auto snapshot = std::lower_bound(snapshots_.begin(), snapshots_.end(), key.sequence);
  const auto stripe = static_cast<size_t>(snapshot - snapshots_.begin());
  if (stripe == last_stripe_) return false;
  // Range deletion (K7): hidden from whoever reads in this stripe. The tombstone stays, so what the entry
  // itself hid stays hidden.
  if (range_tombstones_ != nullptr) {
    const SequenceNumber newest_seen = snapshot == snapshots_.end() ? kMaxSequenceNumber : *snapshot;
    if (range_tombstones_->Covering(key.stored_key, newest_seen) > key.sequence) return false;
  }
  last_stripe_ = stripe;
  if (stripe != 0 || !bottom_ || key.sequence > floor_) return true;
  if (key.type == ValueType::kPutTtl && value.size() >= sizeof(uint64_t)) {
    const auto expiry_ms = static_cast<int64_t>(DecodeFixed64(value.data()));
    if (expiry_ms > now_ms_) return true;
    expired_by_ms_ = std::max(expired_by_ms_, expiry_ms);
    return false;
  }
  return key.type != ValueType::kDelete;
}

}  // namespace nova
