#include "ltc/engine/version.h"

#include <algorithm>
#include <map>

#include "common/base/coding.h"
#include "common/sstable/compaction_job.h"

namespace nova {

// --- VersionEdit: u8 format, then fields  u8 tag | value; tags are never reused, unknown ones are refused
// (they would be data)

namespace {

constexpr uint8_t kEditFormat = 1;
enum EditTag : uint8_t {
  kEnd = 0,
  kAdd = 1,
  kDrop = 2,
  kDone = 3,
  kDoneBelow = 4,
  kSeqReserved = 5,
  kNowMs = 6,
  kHeld = 7,
  kPin = 8,
  kUnpin = 9,
  kTombstone = 10,
  kDropTombstone = 11,
  kPinTombstone = 12,
  kMove = 13,
  kDranges = 14
};

Status BadEdit(std::string_view what) {
  return absl::DataLossError(StrCat("version edit: ", absl::string_view(what.data(), what.size())));
}

void PutTombstone(EditTag tag, const RangeTombstone& t, std::string* out) {
  out->push_back(static_cast<char>(tag));
  PutVarint64(out, t.sequence);
  PutLengthPrefixed(out, t.begin);
  PutLengthPrefixed(out, t.end);
}

}  // namespace

std::string VersionEdit::Encode() const {
  std::string out(1, static_cast<char>(kEditFormat));
  for (const Add& a : adds) {
    out.push_back(kAdd);
    PutVarint32(&out, static_cast<uint32_t>(a.level));
    PutVarint64(&out, a.order);
    a.table.AppendTo(&out);
  }
  for (const Uuid& d : drops) {
    out.push_back(kDrop);
    PutFixed64(&out, d.hi);
    PutFixed64(&out, d.lo);
  }
  for (const Move& m : moves) {
    out.push_back(kMove);
    PutFixed64(&out, m.table.hi);
    PutFixed64(&out, m.table.lo);
    PutVarint64(&out, m.copies.size());
    for (const PartCopy& c : m.copies) {
      PutVarint32(&out, c.part);
      PutVarint32(&out, c.from.value());
      PutVarint32(&out, c.to.value());
    }
  }
  for (const RangeTombstoneRef& t : tombstones) PutTombstone(kTombstone, *t, &out);
  for (const SequenceNumber n : dropped_tombstones) {
    out.push_back(kDropTombstone);
    PutVarint64(&out, n);
  }
  for (const MemTableId& id : done) {
    out.push_back(kDone);
    PutVarint64(&out, id.value());
  }
  for (const TableInfo& t : held) {
    out.push_back(kHeld);
    t.AppendTo(&out);
  }
  for (const Pin& p : pins) {
    out.push_back(kPin);
    PutLengthPrefixed(&out, p.name);
    PutVarint64(&out, p.sequence);
    PutVarint64(&out, static_cast<uint64_t>(p.created_ms));
    PutVarint64(&out, p.tables.size());
    for (const Pin::Table& t : p.tables) {
      PutVarint32(&out, static_cast<uint32_t>(t.level));
      PutVarint64(&out, t.order);
      PutFixed64(&out, t.table.hi);
      PutFixed64(&out, t.table.lo);
    }
    for (const RangeTombstoneRef& t : p.tombstones) PutTombstone(kPinTombstone, *t, &out);
  }
  for (const std::string& name : unpins) {
    out.push_back(kUnpin);
    PutLengthPrefixed(&out, name);
  }
  const auto put = [&out](EditTag tag, uint64_t v) {
    if (v == 0) return;
    out.push_back(static_cast<char>(tag));
    PutVarint64(&out, v);
  };
  put(kDoneBelow, done_below.value());
  put(kSeqReserved, seq_reserved);
  put(kNowMs, static_cast<uint64_t>(now_ms));
  if (!dranges.empty()) {
    out.push_back(kDranges);
    PutLengthPrefixed(&out, dranges);
  }
  out.push_back(kEnd);
  return out;
}

namespace {

bool ValidBounds(const TableInfo& t) {
  return t.smallest.size() >= kInternalTrailerBytes && t.largest.size() >= kInternalTrailerBytes &&
         !UsedKeys(t).empty();
}

bool ParsePin(std::string_view* in, VersionEdit::Pin* pin) {
  std::string_view name;
  uint64_t created = 0, count = 0;
  if (!GetLengthPrefixed(in, &name) || !IsCheckpointName(name) || !GetVarint64(in, &pin->sequence) ||
      !GetVarint64(in, &created) || !GetVarint64(in, &count)) {
    return false;
  }
  pin->name = name;
  pin->created_ms = static_cast<int64_t>(created);
  for (; count > 0; --count) {
    VersionEdit::Pin::Table t;
    uint32_t level;
    if (!GetVarint32(in, &level) || level >= kLevels || !GetVarint64(in, &t.order) ||
        !GetFixed64(in, &t.table.hi) || !GetFixed64(in, &t.table.lo)) {
      return false;
    }
    t.level = static_cast<int>(level);
    pin->tables.push_back(t);
  }
  return true;
}

bool ParseMove(std::string_view* in, VersionEdit::Move* move) {
  uint64_t count = 0;
  if (!GetFixed64(in, &move->table.hi) || !GetFixed64(in, &move->table.lo) || !GetVarint64(in, &count))
    return false;
  for (; count > 0; --count) {
    uint32_t part, from, to;
    if (!GetVarint32(in, &part) || !GetVarint32(in, &from) || !GetVarint32(in, &to)) return false;
    move->copies.push_back({part, StocId(from), StocId(to)});
  }
  return !move->copies.empty();
}

}  // namespace

StatusOr<VersionEdit> VersionEdit::Decode(std::string_view in) {
  VersionEdit edit;
  if (in.empty() || in[0] != static_cast<char>(kEditFormat)) return BadEdit("unknown format");
  in.remove_prefix(1);
  while (!in.empty()) {
    const auto tag = static_cast<uint8_t>(in[0]);
    in.remove_prefix(1);
    uint64_t v = 0;
    switch (tag) {
      case kEnd:
        if (!in.empty()) return BadEdit("bytes after the end");
        return edit;
      case kAdd: {
        Add add;
        uint32_t level;
        if (!GetVarint32(&in, &level) || level >= kLevels || !GetVarint64(&in, &add.order))
          return BadEdit("bad add");
        add.level = static_cast<int>(level);
        NOVA_ASSIGN_OR_RETURN(add.table, TableInfo::Parse(&in));
        if (!ValidBounds(add.table)) return BadEdit("bad bounds");
        edit.adds.push_back(std::move(add));
        break;
      }
      case kHeld: {
        NOVA_ASSIGN_OR_RETURN(TableInfo table, TableInfo::Parse(&in));
        if (!ValidBounds(table)) return BadEdit("bad bounds");
        edit.held.push_back(std::move(table));
        break;
      }
      case kPin: {
        Pin pin;
        if (!ParsePin(&in, &pin)) return BadEdit("bad checkpoint");
        edit.pins.push_back(std::move(pin));
        break;
      }
      case kMove: {
        Move move;
        if (!ParseMove(&in, &move)) return BadEdit("bad move of copies");
        edit.moves.push_back(std::move(move));
        break;
      }
      case kUnpin: {
        std::string_view name;
        if (!GetLengthPrefixed(&in, &name)) return BadEdit("bad name of a checkpoint");
        edit.unpins.emplace_back(name);
        break;
      }
      case kDrop: {
        Uuid u;
        if (!GetFixed64(&in, &u.hi) || !GetFixed64(&in, &u.lo)) return BadEdit("bad drop");
        edit.drops.push_back(u);
        break;
      }
      case kTombstone:
      case kPinTombstone: {  // of the pin before it
        RangeTombstone t;
        if (!GetVarint64(&in, &t.sequence) || !GetLengthPrefixed(&in, &t.begin) ||
            !GetLengthPrefixed(&in, &t.end) || t.begin >= t.end ||
            (tag == kPinTombstone && edit.pins.empty())) {
          return BadEdit("bad range tombstone");
        }
        auto& all = tag == kTombstone ? edit.tombstones : edit.pins.back().tombstones;
        all.push_back(std::make_shared<const RangeTombstone>(std::move(t)));
        break;
      }
      case kDropTombstone:
        if (!GetVarint64(&in, &v)) return BadEdit("bad range tombstone");
        edit.dropped_tombstones.push_back(v);
        break;
      case kDone:
        if (!GetVarint64(&in, &v)) return BadEdit("bad memtable id");
        edit.done.emplace_back(v);
        break;
      case kDoneBelow:
        if (!GetVarint64(&in, &v)) return BadEdit("bad low-water mark");
        edit.done_below = MemTableId(v);
        break;
      case kSeqReserved:
        if (!GetVarint64(&in, &edit.seq_reserved)) return BadEdit("bad sequence");
        break;
      case kNowMs:
        if (!GetVarint64(&in, &v)) return BadEdit("bad time");
        edit.now_ms = static_cast<int64_t>(v);
        break;
      case kDranges:
        if (!GetLengthPrefixed(&in, &edit.dranges)) return BadEdit("bad Dranges");
        break;
      default:
        return BadEdit("unknown field");
    }
  }
  return BadEdit("cut short");
}

// --- Version

namespace {

StatusOr<RangeTombstonesRef> ApplyTombstones(const RangeTombstonesRef& before, const VersionEdit& edit) {
  if (edit.tombstones.empty() && edit.dropped_tombstones.empty()) return before;
  std::vector<RangeTombstoneRef> all = edit.tombstones;
  if (before != nullptr) all.insert(all.end(), before->all().begin(), before->all().end());
  std::set<SequenceNumber> left(edit.dropped_tombstones.begin(), edit.dropped_tombstones.end());
  std::erase_if(all, [&left](const RangeTombstoneRef& t) { return left.erase(t->sequence) > 0; });
  if (!left.empty())
    return absl::DataLossError(StrCat("edit drops range tombstone ", *left.begin(), ", which is not there"));
  return RangeTombstones::Of(std::move(all));
}

// The map of the edit, if that has a good one that is newer than the version's.
DrangeMapRef LaterMap(const DrangeMapRef& before, const VersionEdit& edit) {
  if (edit.dranges.empty()) return before;
  DrangeMapRef map = DrangeMap::Decode(edit.dranges);
  const bool takes_over = map != nullptr && (before == nullptr || map->generation() > before->generation());
  return takes_over ? map : before;
}

}  // namespace

DoneMemTables::DoneMemTables(const std::vector<VersionEdit>& edits) {
  for (const VersionEdit& edit : edits) {
    below_ = std::max(below_, edit.done_below);
    done_.insert(edit.done.begin(), edit.done.end());
  }
}

const Run* Version::LevelRun(int level) const {
  for (const Run& r : runs_) {
    if (r.level == level) return &r;
  }
  return nullptr;
}

uint64_t Version::LevelBytes(int level) const {
  uint64_t n = 0;
  for (const Run& r : runs_) n += r.level == level ? r.bytes() : 0;
  return n;
}

size_t Version::TableCount() const {
  size_t n = 0;
  for (const Run& r : runs_) n += r.tables.size();
  return n;
}

uint64_t Version::TotalBytes() const {
  uint64_t n = 0;
  for (const Run& r : runs_) n += r.bytes();
  return n;
}

namespace {

// The tables are no longer those that last_keys was built of.
void Touch(Run* run) { run->last_keys = {}; }

// Puts a table where it belongs; the order of runs comes with FinishRuns. DataLoss: it overlaps another one
// of its run.
Status AddTable(int level, uint64_t order, TableRef table, std::vector<Run>* runs) {
  auto run = std::find_if(runs->begin(), runs->end(),
                          [&](const Run& r) { return r.level == level && r.order == order; });
  if (run == runs->end()) {
    runs->push_back(Run{level, order, {}});
    run = std::prev(runs->end());
  }
  const KeyInterval& keys = table->keys();
  const auto next =
      std::upper_bound(run->tables.begin(), run->tables.end(), keys.first,
                       [](std::string_view first, const TableRef& t) { return first < t->keys().first; });
  if ((next != run->tables.begin() && !(*std::prev(next))->keys().EndsBefore(keys.first)) ||
      (next != run->tables.end() && !keys.EndsBefore((*next)->keys().first)))
    return absl::DataLossError(StrCat("tables overlap in level ", level));
  run->tables.insert(next, std::move(table));
  Touch(&*run);
  return OkStatus();
}

// The tables that an edit adds, holds and pins, without their handles.
std::map<Uuid, TableRef> TablesNamedBy(const VersionEdit& edit) {
  std::map<Uuid, TableRef> named;
  for (const TableInfo& info : edit.held) named[info.uuid];
  for (const VersionEdit::Add& add : edit.adds) named[add.table.uuid];
  for (const VersionEdit::Pin& pin : edit.pins) {
    for (const VersionEdit::Pin::Table& t : pin.tables) named[t.table];
  }
  return named;
}

// Puts the runs in order, and derives what follows from their tables.
void FinishRuns(std::vector<Run>* runs) {
  std::erase_if(*runs, [](const Run& r) { return r.tables.empty(); });
  for (Run& run : *runs) {
    if (run.last_keys.size() == run.tables.size()) continue;  // nobody touched it
    run.last_keys.Build(run.tables.size(), [&](size_t i) { return run.tables[i]->keys().last; });
  }
  std::sort(runs->begin(), runs->end(), [](const Run& a, const Run& b) {
    return a.level != b.level ? a.level < b.level : a.order > b.order;
  });
  double all = 0;
  for (Run& run : *runs) all += run.share = static_cast<double>(run.bytes());
  for (Run& run : *runs) run.share /= all;
}

}  // namespace

bool IsCheckpointName(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

CheckpointRef Version::FindCheckpoint(std::string_view name) const {
  const auto at = std::find_if(checkpoints_.begin(), checkpoints_.end(),
                               [&](const CheckpointRef& c) { return c->name == name; });
  return at == checkpoints_.end() ? nullptr : *at;
}

void Version::ForEachTable(const std::function<void(const Run&, const TableRef&)>& fn) const {
  const auto visit = [&fn](const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      for (const TableRef& t : run.tables) fn(run, t);
    }
  };
  visit(runs_);
  for (const CheckpointRef& c : checkpoints_) visit(c->runs);
}

// A table keeps its handle wherever it goes: two handles would delete its files for one another.
void Version::ForEachTableOnce(const std::function<void(const TableInfo&)>& fn) const {
  std::set<const TableHandle*> seen;
  ForEachTable([&](const Run&, const TableRef& t) {
    if (seen.insert(t.get()).second) fn(t->info());
  });
}

TableRef Version::FindHandle(const Uuid& table) const {
  const auto find = [&table](const std::vector<Run>& runs) -> TableRef {
    for (const Run& run : runs) {
      for (const TableRef& t : run.tables) {
        if (t->info().uuid == table) return t;
      }
    }
    return nullptr;
  };
  TableRef found = find(runs_);
  for (size_t i = 0; found == nullptr && i < checkpoints_.size(); ++i) found = find(checkpoints_[i]->runs);
  return found;
}

VersionEdit::Pin Version::PinRuns(std::string name, SequenceNumber sequence, int64_t created_ms) const {
  VersionEdit::Pin pin{std::move(name), sequence, created_ms, {}};
  for (const Run& run : runs_) {
    for (const TableRef& t : run.tables) pin.tables.push_back({run.level, run.order, t->info().uuid});
  }
  if (tombstones_ != nullptr) pin.tombstones = tombstones_->all();
  return pin;
}

Status Version::Drop(const std::vector<Uuid>& tables) {
  std::set<Uuid> left(tables.begin(), tables.end());
  for (Run& run : runs_) {
    const auto drops = [&](const TableRef& t) { return left.erase(t->info().uuid) > 0; };
    if (!left.empty() && std::erase_if(run.tables, drops) > 0) Touch(&run);
  }
  if (left.empty()) return OkStatus();
  return absl::DataLossError(StrCat("edit drops table ", left.begin()->ToString(), ", which is not there"));
}

void Version::FindHandles(std::map<Uuid, TableRef>* named) const {
  if (named->empty()) return;
  ForEachTable([named](const Run&, const TableRef& t) {
    const auto found = named->find(t->info().uuid);
    if (found != named->end() && found->second == nullptr) found->second = t;
  });
}

StatusOr<std::shared_ptr<const Version>> Version::Apply(const VersionEdit& edit,
                                                        const GarbageSink& garbage) const {
  auto next = std::make_shared<Version>();
  next->runs_ = runs_;
  next->checkpoints_ = checkpoints_;
  NOVA_ASSIGN_OR_RETURN(next->tombstones_, ApplyTombstones(tombstones_, edit));
  NOVA_RETURN_IF_ERROR(next->Drop(edit.drops));
  for (const VersionEdit::Move& move : edit.moves) NOVA_RETURN_IF_ERROR(next->ApplyMove(move, garbage));
  std::map<Uuid, TableRef> handles = TablesNamedBy(edit);
  if (!edit.moves.empty()) next->FindHandles(&handles);  // those that moved have new ones
  FindHandles(&handles);
  const auto handle_of = [&](const TableInfo& info,
                             const std::shared_ptr<const TableReader>& reader) -> StatusOr<TableRef> {
    TableRef& handle = handles[info.uuid];
    if (handle == nullptr) return handle = std::make_shared<TableHandle>(info, reader, garbage);
    if (handle->info().use_from == info.use_from && handle->info().use_to == info.use_to) return handle;
    return absl::DataLossError(
        StrCat("edit names table ", info.uuid.ToString(), ", which is there with other use-bounds"));
  };
  for (const TableInfo& info : edit.held) NOVA_RETURN_IF_ERROR(handle_of(info, nullptr).status());
  for (const VersionEdit::Add& add : edit.adds) {
    NOVA_ASSIGN_OR_RETURN(TableRef handle, handle_of(add.table, add.reader));
    NOVA_RETURN_IF_ERROR(AddTable(add.level, add.order, std::move(handle), &next->runs_));
  }
  FinishRuns(&next->runs_);
  next->level0_runs_ = static_cast<int>(
      std::count_if(next->runs_.begin(), next->runs_.end(), [](const Run& r) { return r.level == 0; }));
  for (const Run& run : next->runs_) {
    for (const TableRef& t : run.tables) {
      if (run.level > 0) next->first_expired_ms_ = std::min(next->first_expired_ms_, t->expires_by_ms());
    }
  }
  next->index_ = RangeIndex(next->runs_, LaterMap(dranges(), edit));
  for (const VersionEdit::Pin& pin : edit.pins) {
    auto made = std::make_shared<Checkpoint>(
        Checkpoint{pin.name, pin.sequence, pin.created_ms, {}, RangeTombstones::Of(pin.tombstones)});
    for (const VersionEdit::Pin::Table& t : pin.tables) {
      TableRef handle = handles[t.table];
      if (handle == nullptr)
        return absl::DataLossError(
            StrCat("checkpoint ", pin.name, " pins table ", t.table.ToString(), ", which is not there"));
      NOVA_RETURN_IF_ERROR(Annotate(AddTable(t.level, t.order, std::move(handle), &made->runs), pin.name));
    }
    FinishRuns(&made->runs);
    std::erase_if(next->checkpoints_, [&](const CheckpointRef& c) { return c->name == pin.name; });
    next->checkpoints_.push_back(std::move(made));
  }
  for (const std::string& name : edit.unpins) {
    const auto of_name = [&](const CheckpointRef& c) { return c->name == name; };
    if (std::erase_if(next->checkpoints_, of_name) == 0)
      return absl::DataLossError(StrCat("edit deletes checkpoint ", name, ", which is not there"));
  }
  std::sort(next->checkpoints_.begin(), next->checkpoints_.end(),
            [](const CheckpointRef& a, const CheckpointRef& b) { return a->name < b->name; });
  return std::shared_ptr<const Version>(std::move(next));
}

Status Version::ApplyMove(const VersionEdit::Move& move, const GarbageSink& garbage) {
  const TableRef before = FindHandle(move.table);
  if (before == nullptr)
    return absl::DataLossError(StrCat("edit moves table ", move.table.ToString(), ", which is not there"));
  TableInfo info = before->info();
  if (!MoveCopies(move.copies, &info)) {
    return absl::DataLossError(
        StrCat("edit moves copies of table ", move.table.ToString(), " that are not where it says"));
  }
  const auto after = std::make_shared<TableHandle>(std::move(info), before->reader(), garbage);
  const auto replace = [&](std::vector<Run>* runs) {
    bool found = false;
    for (Run& run : *runs) {
      for (TableRef& t : run.tables) {
        if (t != before) continue;
        t = after;
        found = true;
      }
    }
    return found;
  };
  replace(&runs_);
  const auto holds = [&before](const Run& run) {
    return std::find(run.tables.begin(), run.tables.end(), before) != run.tables.end();
  };
  for (CheckpointRef& checkpoint : checkpoints_) {
    if (std::none_of(checkpoint->runs.begin(), checkpoint->runs.end(), holds)) continue;
    Checkpoint moved = *checkpoint;
    if (replace(&moved.runs)) checkpoint = std::make_shared<const Checkpoint>(std::move(moved));
  }
  return OkStatus();
}

std::shared_ptr<const Version> Version::WithoutDranges() const {
  auto next = std::make_shared<Version>(*this);
  next->index_ = RangeIndex(next->runs_, nullptr);
  return next;
}

VersionEdit Version::Snapshot() const {
  VersionEdit edit;
  std::set<Uuid> named;
  for (const Run& run : runs_) {
    for (const TableRef& t : run.tables) {
      edit.adds.push_back({run.level, run.order, t->info(), nullptr});
      named.insert(t->info().uuid);
    }
  }
  for (const CheckpointRef& c : checkpoints_) {
    VersionEdit::Pin pin{c->name, c->sequence, c->created_ms, {}};
    if (c->tombstones != nullptr) pin.tombstones = c->tombstones->all();
    for (const Run& run : c->runs) {
      for (const TableRef& t : run.tables) {
        pin.tables.push_back({run.level, run.order, t->info().uuid});
        if (named.insert(t->info().uuid).second) edit.held.push_back(t->info());
      }
    }
    edit.pins.push_back(std::move(pin));
  }
  if (tombstones_ != nullptr) edit.tombstones = tombstones_->all();
  if (dranges() != nullptr) edit.dranges = dranges()->Encode();
  return edit;
}

std::vector<SequenceNumber> Version::NeedlessTombstones(std::span<const SequenceNumber> snapshots) const {
  if (tombstones_ == nullptr) return {};
  std::vector<SequenceNumber> needless = tombstones_->Needless(snapshots);
  const size_t hidden = needless.size();
  for (const RangeTombstoneRef& t : tombstones_->all()) {
    if (std::binary_search(needless.begin(), needless.begin() + static_cast<ptrdiff_t>(hidden), t->sequence))
      continue;
    const auto holds_hidden = [&t](const TableRef& table) {
      return table->info().min_sequence < t->sequence && TombstonesApplied(table->info()) < t->sequence;
    };
    const bool hides = std::any_of(runs_.begin(), runs_.end(), [&](const Run& run) {
      for (size_t i = run.FirstNotBefore(t->begin);
           i < run.tables.size() && run.tables[i]->keys().first < t->end; ++i) {
        if (holds_hidden(run.tables[i])) return true;
      }
      return false;
    });
    if (!hides) needless.push_back(t->sequence);
  }
  return needless;
}

bool Version::OverlapsDeeper(int level, const KeyInterval& keys) const {
  for (const Run& run : runs_) {
    if (run.level <= level) continue;
    const size_t i = run.FirstNotBefore(keys.first);
    if (i < run.tables.size() && !keys.EndsBefore(run.tables[i]->keys().first)) return true;
  }
  return false;
}

}  // namespace nova
