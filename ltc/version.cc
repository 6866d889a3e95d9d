#include "ltc/version.h"

#include <algorithm>

#include "common/base/coding.h"

namespace nova {

TableHandle::~TableHandle() {
  if (dropped_.load() && garbage_) garbage_(info_);
}

std::shared_ptr<const TableReader> TableHandle::reader() const {
  MutexLock lock(&mu_);
  return reader_;
}

void TableHandle::SetReader(std::shared_ptr<const TableReader> reader) {
  MutexLock lock(&mu_);
  if (reader_ != nullptr) return;
  reader_ = std::move(reader);
  if (reader_->mapped()) mapped_.store(reader_.get(), std::memory_order_release);
}

uint64_t Run::bytes() const {
  uint64_t n = 0;
  for (const TableRef& t : tables) n += t->info().data_size;
  return n;
}

size_t Run::FirstNotBefore(std::string_view stored_key) const {
  return static_cast<size_t>(std::partition_point(tables.begin(), tables.end(),
                                                  [&](const TableRef& t) { return t->largest_key() < stored_key; }) -
                             tables.begin());
}

TableHandle* Run::Find(std::string_view stored_key) const {
  const size_t i = FirstNotBefore(stored_key);
  return i < tables.size() && tables[i]->smallest_key() <= stored_key ? tables[i].get() : nullptr;
}

// --- VersionEdit: u8 format, then fields  u8 tag | value; tags are never reused, unknown ones are refused (they would be data)

namespace {

constexpr uint8_t kEditFormat = 1;
enum EditTag : uint8_t { kEnd = 0, kAdd = 1, kDrop = 2, kDone = 3, kDoneBelow = 4, kSeqReserved = 5, kNowMs = 6 };

Status BadEdit(std::string_view what) {
  return absl::DataLossError(StrCat("version edit: ", absl::string_view(what.data(), what.size())));
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
  for (const MemTableId& id : done) {
    out.push_back(kDone);
    PutVarint64(&out, id.value());
  }
  const auto put = [&out](EditTag tag, uint64_t v) {
    if (v == 0) return;
    out.push_back(static_cast<char>(tag));
    PutVarint64(&out, v);
  };
  put(kDoneBelow, done_below.value());
  put(kSeqReserved, seq_reserved);
  put(kNowMs, static_cast<uint64_t>(now_ms));
  out.push_back(kEnd);
  return out;
}

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
        if (!GetVarint32(&in, &level) || level >= kLevels || !GetVarint64(&in, &add.order)) return BadEdit("bad add");
        add.level = static_cast<int>(level);
        NOVA_ASSIGN_OR_RETURN(add.table, TableInfo::Parse(&in));
        if (add.table.smallest.size() < kInternalTrailerBytes || add.table.largest.size() < kInternalTrailerBytes) {
          return BadEdit("bad bounds");
        }
        edit.adds.push_back(std::move(add));
        break;
      }
      case kDrop: {
        Uuid u;
        if (!GetFixed64(&in, &u.hi) || !GetFixed64(&in, &u.lo)) return BadEdit("bad drop");
        edit.drops.push_back(u);
        break;
      }
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
      default: return BadEdit("unknown field");
    }
  }
  return BadEdit("cut short");
}

// --- Version

int Version::Level0Runs() const {
  return static_cast<int>(std::count_if(runs_.begin(), runs_.end(), [](const Run& r) { return r.level == 0; }));
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

StatusOr<std::shared_ptr<const Version>> Version::Apply(const VersionEdit& edit, const GarbageSink& garbage) const {
  auto next = std::make_shared<Version>();
  next->runs_ = runs_;
  for (const Uuid& uuid : edit.drops) {
    bool found = false;
    for (Run& run : next->runs_) {
      found |= std::erase_if(run.tables, [&](const TableRef& t) { return t->info().uuid == uuid; }) > 0;
    }
    if (!found) return absl::DataLossError(StrCat("edit drops table ", uuid.ToString(), ", which is not there"));
  }
  for (const VersionEdit::Add& add : edit.adds) {
    TableRef handle;
    // A table that moved to another level keeps its handle: it is in this version already.
    for (const Run& run : runs_) {
      for (const TableRef& t : run.tables) {
        if (t->info().uuid == add.table.uuid) handle = t;
      }
    }
    if (handle == nullptr) handle = std::make_shared<TableHandle>(add.table, add.reader, garbage);
    auto run = std::find_if(next->runs_.begin(), next->runs_.end(),
                            [&](const Run& r) { return r.level == add.level && r.order == add.order; });
    if (run == next->runs_.end()) {
      next->runs_.push_back(Run{add.level, add.order, {}});
      run = std::prev(next->runs_.end());
    }
    run->tables.push_back(std::move(handle));
  }
  std::erase_if(next->runs_, [](const Run& r) { return r.tables.empty(); });
  for (Run& run : next->runs_) {
    std::sort(run.tables.begin(), run.tables.end(),
              [](const TableRef& a, const TableRef& b) { return a->smallest_key() < b->smallest_key(); });
    for (size_t i = 1; i < run.tables.size(); ++i) {
      if (run.tables[i]->smallest_key() <= run.tables[i - 1]->largest_key()) {
        return absl::DataLossError(StrCat("tables overlap in level ", run.level));
      }
    }
  }
  std::sort(next->runs_.begin(), next->runs_.end(), [](const Run& a, const Run& b) {
    return a.level != b.level ? a.level < b.level : a.order > b.order;
  });
  return std::shared_ptr<const Version>(std::move(next));
}

VersionEdit Version::Snapshot() const {
  VersionEdit edit;
  for (const Run& run : runs_) {
    for (const TableRef& t : run.tables) edit.adds.push_back({run.level, run.order, t->info(), nullptr});
  }
  return edit;
}

bool Version::OverlapsDeeper(int level, std::string_view smallest, std::string_view largest) const {
  for (const Run& run : runs_) {
    if (run.level <= level) continue;
    const size_t i = run.FirstNotBefore(smallest);
    if (i < run.tables.size() && run.tables[i]->smallest_key() <= largest) return true;
  }
  return false;
}

}  // namespace nova
