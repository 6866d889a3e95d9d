#include "stoc/stoc_table_store.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "common/base/log.h"
#include "common/base/wait_group.h"
#include "common/sstable/table_check.h"
#include "common/sstable/table_reader.h"

namespace nova {
namespace {

// when every copy has failed once, and may answer the next time
constexpr Nanos kPauseBetweenRounds = 10 * kMillisecond;

// The bytes of a table are gone from a copy, and will not come back by asking again.
bool IsFinal(const Status& s) { return absl::IsNotFound(s) || absl::IsDataLoss(s); }

Nanos DeadlineOfTry(Nanos deadline_ns, bool another_copy) {
  const Nanos now = Now();
  return another_copy && deadline_ns > now ? now + (deadline_ns - now) / 3 : deadline_ns;
}

// So long a copy of that many bytes may take, at the least bandwidth that a StoC gives to copies.
Nanos TimeOfCopy(uint64_t bytes) { return static_cast<Nanos>(bytes >> 20) * kSecond; }

// What a caller of TableStore is told of a StoC that could not take a copy. A disk that failed there is no
// loss of data.
Status RefusedByTarget(const Status& s) {
  if (absl::IsFailedPrecondition(s) || absl::IsResourceExhausted(s)) return s;
  return absl::UnavailableError(s.message());
}

// Collects what the copies said.
class Failures {
 public:
  void Add(const Status& s) {
    any_final_ = any_final_ || IsFinal(s);
    any_retryable_ = any_retryable_ || !IsFinal(s);
    if (count_++ >= kMostTold) return;
    text_ += StrCat(text_.empty() ? "" : "; ", s.message());
  }
  void NextRound() { any_retryable_ = false; }
  bool any() const { return count_ > 0; }
  bool any_final() const { return any_final_; }
  bool any_retryable() const { return any_retryable_; }
  Status ToStatus(const StocFileId& file) const {
    const std::string text =
        StrCat("no good copy of ", file.ToString(), ": ", text_.empty() ? "none is listed" : text_);
    return any_retryable_ || text_.empty() ? absl::UnavailableError(text) : absl::DataLossError(text);
  }

 private:
  static constexpr int kMostTold = 6;
  std::string text_;
  int count_ = 0;
  bool any_final_ = false;
  bool any_retryable_ = false;
};

Status ShortRead(StocId stoc, size_t got, size_t wanted) {
  return absl::DataLossError(StrCat("stoc ", stoc.value(), " has ", got, " of ", wanted, " bytes"));
}

// Blocks that follow one another, as they were read.
Status CheckRawBlocks(const Uuid& table, std::span<const BlockHandle> blocks, std::string_view bytes) {
  for (const BlockHandle& b : blocks) {
    NOVA_RETURN_IF_ERROR(CheckRawBlock(table, b, bytes.substr(b.offset - blocks.front().offset, b.size)));
  }
  return OkStatus();
}

class StocTableStore : public TableStore {
 public:
  StocTableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                 const StocTableStoreOptions& options, Metrics* metrics)
      : client_(client),
        xchg_of_(std::move(xchg_of)),
        options_(options),
        damaged_(metrics->counter("nova_table_blocks_damaged_total")),
        from_other_copy_(metrics->counter("nova_table_reads_from_other_copy_total")),
        lost_(metrics->counter("nova_table_reads_without_good_copy_total")),
        repaired_(metrics->counter("nova_table_copies_repaired_total")),
        made_(metrics->counter("nova_table_copies_made_total")),
        made_bytes_(metrics->counter("nova_table_copies_made_bytes_total")) {}

  StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                 const Creator& creator) override {
    TableInfo& info = output.info;
    info.fragments = CutFragments(output.block_ends, placement.fragments.size());
    info.metadata_stocs = placement.metadata;
    if (info.fragments.empty() || info.metadata_stocs.empty())
      return absl::InvalidArgumentError("a table without a place");
    std::vector<FileWrite> files;
    for (size_t i = 0; i < info.fragments.size(); ++i) {
      Fragment& fragment = info.fragments[i];
      fragment.stocs = placement.fragments[i];
      files.push_back({{info.uuid, static_cast<uint32_t>(i)},
                       fragment.stocs,
                       std::string_view(output.data).substr(fragment.offset, fragment.size)});
    }
    files.push_back({{info.uuid, kMetadataPart}, info.metadata_stocs, output.metadata});
    const Status status = WriteFiles(std::move(files), creator);
    if (!status.ok()) {
      DropTable(info, creator);
      return Annotate(status, StrCat("table ", info.uuid.ToString()));
    }
    return std::move(info);
  }

  StatusOr<std::string> ReadMetadata(const TableInfo& info) override {
    auto bytes = ReadCopies(info.metadata_stocs, {info.uuid, kMetadataPart}, 0, info.metadata_size,
                            Now() + options_.read_deadline_ns,
                            [&](std::string_view raw) { return CheckRawMetadata(info, raw).status(); });
    CountLost(bytes.status());
    return bytes;
  }

  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    const Nanos deadline = Now() + options_.read_deadline_ns;
    std::string bytes;
    size_t singly = 0;  // blocks at the front that are read one by one
    while (!blocks.empty()) {
      const int part = FragmentOf(info, blocks.front());
      if (part < 0) return NoSuchBlock(info, blocks.front());
      size_t n = 1;
      while (singly == 0 && n < blocks.size() && FragmentOf(info, blocks[n]) == part) ++n;
      auto stretch = ReadStretch(info, static_cast<uint32_t>(part), blocks.first(n), deadline);
      if (absl::IsDataLoss(stretch.status()) && n > 1) {
        singly = n;  // every copy is damaged somewhere; each block may still be good in one of them
        continue;
      }
      CountLost(stretch.status());
      NOVA_RETURN_IF_ERROR(stretch.status());
      if (singly > 0) --singly;
      if (bytes.empty()) {
        bytes = *std::move(stretch);
      } else {
        bytes += *stretch;
      }
      blocks = blocks.subspan(n);
    }
    return bytes;
  }

  void FetchBlocks(Executor* on, const TableInfo& info, std::vector<BlockHandle> blocks, Nanos deadline_ns,
                   ReadDone done) override;
  void FetchMetadata(Executor* on, const TableInfo& info, Nanos deadline_ns, ReadDone done) override;
  StatusOr<int> Repair(const TableInfo& info, const Creator& creator) override;
  Status MakeCopies(const TableInfo& info, std::span<const PartCopy> copies, const Creator& creator) override;

  Status AddReferences(std::span<const TableInfo> tables, const Creator& holder) override {
    FilesByStoc files;
    for (const TableInfo& t : tables) AddFilesOf(t, &files);
    const Nanos deadline = Now() + options_.write_deadline_ns;
    for (const auto& [stoc, of_stoc] : files) {
      NOVA_RETURN_IF_ERROR(client_->AddReferences(stoc, holder.range, holder.epoch, of_stoc, deadline));
    }
    return OkStatus();
  }

  void DropTable(const TableInfo& info, const Creator& holder) override {
    FilesByStoc files;
    AddFilesOf(info, &files);
    for (auto& [stoc, of_stoc] : files) {
      if (IsHere(stoc)) {
        options_.here->Drop(of_stoc, holder);
      } else {
        client_->DropReferencesLater(stoc, holder.range, holder.epoch, std::move(of_stoc));
      }
    }
  }

 private:
  class CopiesRead;
  struct CopyToMake;
  using FilesByStoc = std::map<StocId, std::vector<StocFileId>>;

  // The files of all copies of the table's parts, by StoC.
  static void AddFilesOf(const TableInfo& info, FilesByStoc* files) {
    ForEachPart(info, [&](uint32_t part) {
      for (const StocId stoc : *CopiesOf(info, part)) (*files)[stoc].push_back({info.uuid, part});
    });
  }

  // The index of the fragment that holds the block; -1: none does, all of it.
  static int FragmentOf(const TableInfo& info, const BlockHandle& handle) {
    const auto after = std::upper_bound(info.fragments.begin(), info.fragments.end(), handle.offset,
                                        [](uint64_t at, const Fragment& f) { return at < f.offset; });
    if (after == info.fragments.begin()) return -1;
    const auto it = after - 1;
    const uint64_t inside = handle.offset - it->offset;
    return inside < it->size && handle.size <= it->size - inside
               ? static_cast<int>(it - info.fragments.begin())
               : -1;
  }
  // The error of a handle that lies in no fragment.
  static Status NoSuchBlock(const TableInfo& info, const BlockHandle& handle) {
    return absl::OutOfRangeError(StrCat("table ", info.uuid.ToString(), " has no block of ", handle.size,
                                        " bytes at ", handle.offset));
  }

  // The StoC is the one that this is part of.
  bool IsHere(StocId stoc) const { return options_.here != nullptr && options_.here->stoc() == stoc; }
  // All copies of all files: those that lie here, then the others at once.
  Status WriteFiles(std::vector<FileWrite> files, const Creator& creator) {
    for (FileWrite& f : files) {
      if (std::erase_if(f.stocs, [this](StocId stoc) { return IsHere(stoc); }) == 0) continue;
      NOVA_RETURN_IF_ERROR(options_.here->Write(f.file, creator, f.data));
    }
    std::erase_if(files, [](const FileWrite& f) { return f.stocs.empty(); });
    return client_->WriteAll(files, creator, Now() + options_.write_deadline_ns);
  }

  // The best to read from first, what lies here before all; equal ones in turn.
  std::vector<StocId> InOrder(const std::vector<StocId>& copies) {
    std::vector<StocId> order = copies;
    if (order.size() < 2) return order;
    const size_t turn = turn_.fetch_add(1, std::memory_order_relaxed) % order.size();
    std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn), order.end());
    order = client_->InOrderOfReading(order);
    std::stable_partition(order.begin(), order.end(), [this](StocId stoc) { return IsHere(stoc); });
    return order;
  }

  // Judges bytes of the wanted length by their checksums.
  using Check = absl::FunctionRef<Status(std::string_view bytes)>;
  // What is wrong with what a copy gave, by its length and by `check`; OK: nothing. Damage is counted.
  Status CheckCopy(StocId stoc, uint64_t size, std::string_view bytes, Check check) {
    if (bytes.size() != size) return ShortRead(stoc, bytes.size(), size);
    const Status s = check(bytes);
    if (s.ok()) return s;
    damaged_->Add();
    const auto node = client_->Find(stoc);
    const Status named =
        Annotate(s, StrCat("stoc ", stoc.value(), node ? StrCat(" (", node->name, ")") : ""));
    NOVA_LOG(WARNING) << "damaged copy: " << named.message();
    return named;
  }
  // A copy was good, after others had failed.
  void CountGood(const StocFileId& file, const Failures& failures) {
    if (!failures.any()) return;
    from_other_copy_->Add();
    if (failures.any_final() && options_.damaged) options_.damaged(file.owner);
  }
  // A read has failed: counted and logged if no copy was good.
  void CountLost(const Status& s) {
    if (!absl::IsDataLoss(s)) return;
    lost_->Add();
    NOVA_LOG(ERROR) << s.message();
  }

  // Blocks that follow one another in one fragment.
  StatusOr<std::string> ReadStretch(const TableInfo& info, uint32_t part, std::span<const BlockHandle> blocks,
                                    Nanos deadline_ns) {
    const Fragment& fragment = info.fragments[part];
    const uint64_t begin = blocks.front().offset;
    return ReadCopies(fragment.stocs, {info.uuid, part}, begin - fragment.offset,
                      blocks.back().offset + blocks.back().size - begin, deadline_ns,
                      [&](std::string_view bytes) { return CheckRawBlocks(info.uuid, blocks, bytes); });
  }

  // A piece of a file, from the first copy whose bytes pass `check`; rounds of all that may be good, until
  // the deadline. Waits.
  StatusOr<std::string> ReadCopies(const std::vector<StocId>& copies, const StocFileId& file, uint64_t offset,
                                   uint64_t size, Nanos deadline_ns, Check check) {
    Failures failures;
    for (std::vector<StocId> left = copies;;) {
      failures.NextRound();
      const std::vector<StocId> order = InOrder(left);
      for (const StocId stoc : order) {
        auto bytes = IsHere(stoc) ? options_.here->Read(file, offset, size)
                                  : client_->ReadFileBlocking(stoc, file, offset, size,
                                                              DeadlineOfTry(deadline_ns, order.size() > 1));
        const Status s = bytes.ok() ? CheckCopy(stoc, size, *bytes, check) : bytes.status();
        if (s.ok()) {
          CountGood(file, failures);
          return bytes;
        }
        failures.Add(s);
        if (IsFinal(s)) std::erase(left, stoc);
      }
      if (!failures.any_retryable() || Now() + kPauseBetweenRounds >= deadline_ns)
        return failures.ToStatus(file);
      SleepFor(kPauseBetweenRounds);
    }
  }

  // Its disk has failed: its copies are made anew elsewhere (rebuild, S5), and none is healed there.
  bool IsEmptied(StocId stoc) const {
    const auto node = client_->Find(stoc);
    return node && node->emptied;
  }
  // Writes the part anew where its copy is not `good`. An error, of the first that failed, ends nothing: the
  // others are written.
  StatusOr<int> RepairPart(const std::vector<StocId>& copies, const StocFileId& file,
                           const std::vector<StatusOr<std::string>>& found, std::string_view good,
                           const Creator& creator, Nanos deadline_ns) {
    int written = 0;
    Status failed;
    for (size_t i = 0; i < copies.size(); ++i) {
      if (found[i].ok() ? *found[i] == good : !IsFinal(found[i].status())) continue;
      if (IsEmptied(copies[i])) continue;
      const Status s = client_->WriteFile(copies[i], file, creator, good, deadline_ns);
      if (absl::IsFailedPrecondition(s)) return s;  // fenced: nothing more is this owner's to heal
      failed.Update(s);
      if (!s.ok()) continue;
      NOVA_LOG(WARNING) << "copy of " << file.ToString() << " on stoc " << copies[i].value()
                        << " written anew";
      repaired_->Add();
      ++written;
    }
    NOVA_RETURN_IF_ERROR(failed);
    return written;
  }
  // What each copy of a file has, unchecked. Waits.
  std::vector<StatusOr<std::string>> ReadAll(const std::vector<StocId>& copies, const StocFileId& file,
                                             uint64_t size, Nanos deadline_ns) {
    std::vector<StatusOr<std::string>> found;
    for (const StocId stoc : copies)
      found.push_back(client_->ReadFileBlocking(stoc, file, 0, size, DeadlineOfTry(deadline_ns, true)));
    return found;
  }

  // The blocks of each fragment, in order.
  using BlocksByFragment = std::vector<std::vector<BlockHandle>>;
  // By the index in the table's metadata.
  static StatusOr<BlocksByFragment> BlocksOf(const TableInfo& info, const std::string& metadata) {
    NOVA_ASSIGN_OR_RETURN(const auto table, TableReader::Open(info, metadata));
    BlocksByFragment blocks(info.fragments.size());
    table->ForEachBlock([&](const BlockHandle& h) {
      if (const int part = FragmentOf(info, h); part >= 0) blocks[static_cast<size_t>(part)].push_back(h);
    });
    return blocks;
  }
  // A fragment, each block from a copy that has it whole. DataLoss: a block is whole in none that was found.
  static StatusOr<std::string> PutTogether(const TableInfo& info, size_t part,
                                           const std::vector<BlockHandle>& blocks,
                                           const std::vector<StatusOr<std::string>>& found) {
    const Fragment& fragment = info.fragments[part];
    std::string good;
    good.reserve(fragment.size);
    for (const BlockHandle& h : blocks) {
      const auto copy = std::find_if(found.begin(), found.end(), [&](const StatusOr<std::string>& f) {
        return f.ok() && f->size() == fragment.size &&
               CheckRawBlock(info.uuid, h, std::string_view(*f).substr(h.offset - fragment.offset, h.size))
                   .ok();
      });
      if (copy == found.end()) break;
      good.append(**copy, h.offset - fragment.offset, h.size);
    }
    if (good.size() == fragment.size) return good;
    return absl::DataLossError(StrCat("no good copy of all blocks of ",
                                      StocFileId{info.uuid, static_cast<uint32_t>(part)}.ToString()));
  }

  // --- MakeCopies
  // What there is to make, each with the copies that it may be made from. InvalidArgument: there is no such
  // part, or it has a copy there.
  StatusOr<std::vector<CopyToMake>> SourcesOf(const TableInfo& info, std::span<const PartCopy> copies);
  // Asks for one copy to each StoC that is to get some, and waits for all. What failed for its source is left
  // for the next round. An error: a StoC does not take its copy.
  Status CopyRound(std::vector<CopyToMake>* left, const Creator& creator);
  // A copy for which every source has failed, some of them for damage.
  Status CopyPutTogether(const TableInfo& info, const CopyToMake& copy, const Creator& creator);
  // What its sources said, and those that could not be asked: one of them may have a good copy.
  Status NoGoodCopy(const CopyToMake& copy) const;
  void CountMade(const CopyToMake& copy);  // metrics

  StocClient* const client_;
  const std::function<Xchg*(Executor*)> xchg_of_;
  const StocTableStoreOptions options_;
  Counter* const damaged_;
  Counter* const from_other_copy_;
  Counter* const lost_;
  Counter* const repaired_;
  Counter* const made_;
  Counter* const made_bytes_;
  std::atomic<size_t> turn_{0};
};

// A stretch of a file, from one copy after the other, on one xchg thread.
class StocTableStore::CopiesRead : public std::enable_shared_from_this<CopiesRead> {
 public:
  // What is read: blocks of a fragment that follow one another, or, without any, all of the file.
  struct Stretch {
    StocFileId file;
    uint64_t offset = 0;  // in the file
    uint64_t size = 0;
    std::vector<BlockHandle> blocks = {};
  };
  using Check = absl::AnyInvocable<Status(const Stretch&, std::string_view bytes) const>;
  CopiesRead(StocTableStore* store, Xchg* xchg, std::vector<StocId> copies, Stretch stretch, Check check,
             Nanos deadline_ns, ReadDone done)
      : store_(store),
        xchg_(xchg),
        all_copies_(copies),
        copies_(std::move(copies)),
        stretch_(std::move(stretch)),
        check_(std::move(check)),
        deadline_ns_(std::min(deadline_ns, Now() + store->options_.read_deadline_ns)),
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
    read_.clear();
    ReadOn(order_[next_++]);
  }

  // The next piece: a large table's metadata are more than one read may have.
  void ReadOn(StocId stoc) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kMaxReadBytes, stretch_.size - read_.size()));
    store_->client_->ReadFile(xchg_, stoc, stretch_.file, stretch_.offset + read_.size(), n,
                              DeadlineOfTry(deadline_ns_, order_.size() > 1),
                              [self = shared_from_this(), stoc, n](Outcome o, std::string_view bytes) {
                                self->Answered(stoc, n, o, bytes);
                              });
  }

  void Answered(StocId stoc, uint32_t asked, Outcome outcome, std::string_view bytes) {
    const bool is_piece = asked < stretch_.size;
    if (is_piece && outcome == Outcome::kOk) {
      read_.append(bytes);
      if (bytes.size() == asked && read_.size() < stretch_.size) return ReadOn(stoc);
      bytes = read_;
    }
    const Status s =
        outcome == Outcome::kOk
            ? store_->CheckCopy(stoc, stretch_.size, bytes,
                                [this](std::string_view raw) { return check_(stretch_, raw); })
            : ToStatus(outcome, StrCat("stoc ", stoc.value(), ": ", std::string(OutcomeName(outcome))));
    if (s.ok()) {
      store_->CountGood(stretch_.file, failures_);
      return done_(is_piece ? std::move(read_) : std::string(bytes));
    }
    failures_.Add(s);
    if (IsFinal(s)) std::erase(copies_, stoc);
    Try();
  }

  void End(const Status& s) {
    store_->CountLost(s);
    done_(s);
  }

  void RoundOver() {
    if (stretch_.blocks.size() > 1) {  // the first may be good where another one is not
      stretch_.blocks.resize(1);
      stretch_.size = stretch_.blocks[0].size;
      copies_ = all_copies_;
      failures_ = {};
      return Round();
    }
    const Nanos again = Now() + kPauseBetweenRounds;
    if (!failures_.any_retryable() || again >= deadline_ns_) return End(failures_.ToStatus(stretch_.file));
    xchg_->RunAt(again, [self = shared_from_this()] { self->Round(); });
  }

  StocTableStore* const store_;
  Xchg* const xchg_;
  const std::vector<StocId> all_copies_;
  std::vector<StocId> copies_;  // that may still answer
  Stretch stretch_;
  const Check check_;
  const Nanos deadline_ns_;
  ReadDone done_;
  std::vector<StocId> order_;
  size_t next_ = 0;
  std::string read_;  // of the copy that is read, where that takes several reads
  Failures failures_;
};

void StocTableStore::FetchBlocks(Executor* on, const TableInfo& info, std::vector<BlockHandle> blocks,
                                 Nanos deadline_ns, ReadDone done) {
  Xchg* const xchg = xchg_of_(on);
  const BlockHandle handle = blocks.front();
  const int part = FragmentOf(info, handle);
  if (part < 0 || info.fragments[static_cast<size_t>(part)].stocs.empty() || handle.size > kMaxReadBytes) {
    xchg->Submit([done = std::move(done), s = NoSuchBlock(info, handle)]() mutable { done(s); });
    return;
  }
  const auto is_apart = [&](const BlockHandle& b) {
    return FragmentOf(info, b) != part || b.offset + b.size - handle.offset > kMaxReadBytes;
  };
  blocks.erase(std::find_if(blocks.begin(), blocks.end(), is_apart), blocks.end());
  const Fragment& fragment = info.fragments[static_cast<size_t>(part)];
  CopiesRead::Stretch stretch{{info.uuid, static_cast<uint32_t>(part)}, handle.offset - fragment.offset};
  stretch.size = blocks.back().offset + blocks.back().size - handle.offset;
  stretch.blocks = std::move(blocks);
  const auto check = [](const CopiesRead::Stretch& s, std::string_view raw) {
    return CheckRawBlocks(s.file.owner, s.blocks, raw);
  };
  std::make_shared<CopiesRead>(this, xchg, fragment.stocs, std::move(stretch), check, deadline_ns,
                               std::move(done))
      ->Round();
}

void StocTableStore::FetchMetadata(Executor* on, const TableInfo& info, Nanos deadline_ns, ReadDone done) {
  const auto check = [info](const CopiesRead::Stretch&, std::string_view raw) {
    return CheckRawMetadata(info, raw).status();
  };
  const CopiesRead::Stretch all{{info.uuid, kMetadataPart}, 0, info.metadata_size};
  std::make_shared<CopiesRead>(this, xchg_of_(on), info.metadata_stocs, all, check, deadline_ns,
                               std::move(done))
      ->Round();
}

StatusOr<int> StocTableStore::Repair(const TableInfo& info, const Creator& creator) {
  const auto deadline_of = [&](const std::vector<StocId>& copies, uint64_t bytes) {
    return Now() + options_.write_deadline_ns + static_cast<Nanos>(copies.size()) * TimeOfCopy(bytes);
  };
  NOVA_ASSIGN_OR_RETURN(const std::string metadata, ReadMetadata(info));
  NOVA_ASSIGN_OR_RETURN(const BlocksByFragment blocks, BlocksOf(info, metadata));
  const StocFileId file{info.uuid, kMetadataPart};
  Nanos deadline = deadline_of(info.metadata_stocs, metadata.size());
  const auto of_metadata =
      RepairPart(info.metadata_stocs, file, ReadAll(info.metadata_stocs, file, metadata.size(), deadline),
                 metadata, creator, deadline);
  if (absl::IsFailedPrecondition(of_metadata.status())) return of_metadata;
  int written = of_metadata.value_or(0);
  Status lost = of_metadata.status();
  for (size_t part = 0; part < info.fragments.size(); ++part) {
    const Fragment& fragment = info.fragments[part];
    const StocFileId of_part{info.uuid, static_cast<uint32_t>(part)};
    deadline = deadline_of(fragment.stocs, fragment.size);
    const auto found = ReadAll(fragment.stocs, of_part, fragment.size, deadline);
    const auto good = PutTogether(info, part, blocks[part], found);
    if (!good.ok()) {
      lost = good.status();
      continue;
    }
    const auto of_fragment = RepairPart(fragment.stocs, of_part, found, *good, creator, deadline);
    if (absl::IsFailedPrecondition(of_fragment.status())) return of_fragment;
    written += of_fragment.value_or(0);
    lost.Update(of_fragment.status());
  }
  NOVA_RETURN_IF_ERROR(lost);
  return written;
}

// --- copies

struct StocTableStore::CopyToMake {
  StocFileId file;
  uint64_t size = 0;
  StocId to;
  const std::vector<StocId>* copies = nullptr;  // of the part, all that are listed
  std::vector<StocId> sources;                  // not asked yet, the best first
  Failures failures;
  bool made = false;
};

StatusOr<std::vector<StocTableStore::CopyToMake>> StocTableStore::SourcesOf(
    const TableInfo& info, std::span<const PartCopy> copies) {
  std::vector<CopyToMake> plan;
  for (const PartCopy& c : copies) {
    CopyToMake copy;
    copy.copies = CopiesOf(info, c.part);
    if (copy.copies == nullptr)
      return absl::InvalidArgumentError(StrCat("table ", info.uuid.ToString(), " has no part ", c.part));
    copy.file = {info.uuid, c.part};
    copy.size = PartBytes(info, c.part);
    copy.to = c.to;
    if (std::find(copy.copies->begin(), copy.copies->end(), c.to) != copy.copies->end()) {
      return absl::InvalidArgumentError(
          StrCat(copy.file.ToString(), " has a copy on stoc ", c.to.value(), " already"));
    }
    copy.sources = InOrder(*copy.copies);
    std::erase_if(copy.sources, [this](StocId stoc) { return !client_->IsLive(stoc); });
    // The one that the copy replaces comes last: it is lost, or drains and may be the only one.
    std::stable_partition(copy.sources.begin(), copy.sources.end(),
                          [&c](StocId stoc) { return stoc != c.from; });
    plan.push_back(std::move(copy));
  }
  return plan;
}

Status StocTableStore::CopyRound(std::vector<CopyToMake>* left, const Creator& creator) {
  struct Asked {
    CopyToMake* copy;
    StocId source;
    StocClient::CopyResult result{absl::UnavailableError("not answered"), CopyFault::kTarget};
  };
  std::map<StocId, Asked> asked;  // by target
  for (CopyToMake& copy : *left) {
    if (copy.sources.empty() || asked.contains(copy.to)) continue;
    asked[copy.to] = {&copy, copy.sources.front()};
    copy.sources.erase(copy.sources.begin());
  }
  auto all = std::make_shared<WaitGroup>();
  for (auto& [target, a] : asked) {
    const auto source = client_->Find(a.source);
    const CopyFileRequest request{a.copy->file, creator, a.source,
                                  source ? source->incarnation : Incarnation(), a.copy->size};
    client_->StartCopyFile(
        target, request, Now() + options_.write_deadline_ns + TimeOfCopy(a.copy->size),
        [result = &a.result, part = WaitGroup::Part(all)](StocClient::CopyResult r) mutable {
          *result = std::move(r);
          part.End();
        });
  }
  all->Wait();
  Status refused;
  for (auto& [target, a] : asked) {
    const Status& s = a.result.status;
    if (s.ok()) {
      CountMade(*a.copy);
      CountGood(a.copy->file, a.copy->failures);
      a.copy->made = true;
    } else if (a.result.fault == CopyFault::kSource) {
      NOVA_LOG(WARNING) << s.message();
      if (absl::IsDataLoss(s)) damaged_->Add();
      a.copy->failures.Add(s);
    } else if (refused.ok() || absl::IsFailedPrecondition(s)) {
      refused = RefusedByTarget(s);  // being fenced is what the caller has to know
    }
  }
  std::erase_if(*left, [](const CopyToMake& copy) { return copy.made; });
  return refused;
}

Status StocTableStore::NoGoodCopy(const CopyToMake& copy) const {
  Failures failures = copy.failures;
  for (const StocId stoc : *copy.copies) {
    if (!client_->IsLive(stoc))
      failures.Add(absl::UnavailableError(StrCat("stoc ", stoc.value(), " is not live, and was not asked")));
  }
  return failures.ToStatus(copy.file);
}

void StocTableStore::CountMade(const CopyToMake& copy) {
  made_->Add();
  made_bytes_->Add(copy.size);
}

Status StocTableStore::CopyPutTogether(const TableInfo& info, const CopyToMake& copy,
                                       const Creator& creator) {
  const Nanos deadline = Now() + options_.write_deadline_ns + TimeOfCopy(copy.size);
  NOVA_ASSIGN_OR_RETURN(std::string good, ReadMetadata(info));
  if (copy.file.part != kMetadataPart) {
    NOVA_ASSIGN_OR_RETURN(const BlocksByFragment blocks, BlocksOf(info, good));
    const auto together = PutTogether(info, copy.file.part, blocks[copy.file.part],
                                      ReadAll(*copy.copies, copy.file, copy.size, deadline));
    if (!together.ok()) return NoGoodCopy(copy);
    good = *together;
  }
  const Status written = client_->WriteFile(copy.to, copy.file, creator, good, deadline);
  if (!written.ok()) return RefusedByTarget(written);
  // Where a file of an earlier job was healed by that, it becomes this one's now.
  const auto taken =
      client_->CopyFile(copy.to, {copy.file, creator, copy.to, Incarnation(), copy.size}, deadline);
  if (!taken.status.ok()) return RefusedByTarget(taken.status);
  CountMade(copy);
  CountGood(copy.file, copy.failures);
  return OkStatus();
}

Status StocTableStore::MakeCopies(const TableInfo& info, std::span<const PartCopy> copies,
                                  const Creator& creator) {
  NOVA_ASSIGN_OR_RETURN(std::vector<CopyToMake> left, SourcesOf(info, copies));
  while (std::any_of(left.begin(), left.end(), [](const CopyToMake& c) { return !c.sources.empty(); }))
    NOVA_RETURN_IF_ERROR(CopyRound(&left, creator));
  for (const CopyToMake& copy : left) {
    if (!copy.failures.any_final()) return NoGoodCopy(copy);
    NOVA_RETURN_IF_ERROR(CopyPutTogether(info, copy, creator));
  }
  return OkStatus();
}

}  // namespace

std::unique_ptr<TableStore> NewStocTableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                                              const StocTableStoreOptions& options, Metrics* metrics) {
  return std::make_unique<StocTableStore>(client, std::move(xchg_of), options, metrics);
}

}  // namespace nova
