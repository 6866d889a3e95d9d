#include <algorithm>

#include "common/base/status.h"
#include "experiments/peers/store.h"
#include "ltc/embedded/db.h"

namespace nova {
namespace {

class NovaStore : public Store {
 public:
  NovaStore(const StoreOptions& o, DbOptions options) {
    if (o.disk != nullptr) {
      auto base = OpenPosixDisk(o.directory);
      if (!base.ok()) Fail(base.status().ToString());
      base_ = *std::move(base);
      disk_ = std::make_unique<LimitedDisk>(base_.get(), o.disk);
      options.disk = disk_.get();
    }
    if (o.files != nullptr) options.disk = o.files;
    auto db = Db::Open(o.directory, options);
    if (!db.ok()) Fail(db.status().ToString());
    db_ = *std::move(db);
  }
  void SetSync(bool on) override { write_.sync = on; }
  void Put(std::string_view key, std::string_view value) override {
    if (const Status s = db_->Put(key, value, write_); !s.ok()) Fail(s.ToString());
  }
  void Delete(std::string_view key) override {
    if (const Status s = db_->Delete(key, write_); !s.ok()) Fail(s.ToString());
  }
  void DeleteRange(std::string_view begin, std::string_view end) override {
    if (const Status s = db_->DeleteRange(begin, end, write_); !s.ok()) Fail(s.ToString());
  }
  bool Get(std::string_view key, std::string* value) override {
    const Status s = db_->Get(key, value);
    if (!s.ok() && !absl::IsNotFound(s)) Fail(s.ToString());
    return s.ok();
  }
  void MultiGet(std::span<const std::string> keys, std::vector<std::optional<std::string>>* values) override {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    if (const Status s = db_->MultiGet(views, values); !s.ok()) Fail(s.ToString());
  }
  void Scan(std::string_view from, uint64_t limit,
            const std::function<bool(std::string_view, std::string_view)>& entry) override {
    if (const Status s = db_->Scan(from, limit, entry); !s.ok()) Fail(s.ToString());
  }
  void WaitIdle() override {
    if (const Status s = db_->WaitForBackgroundWork(); !s.ok()) Fail(s.ToString());
  }
  std::string Statistics() override {
    const RangeStats s = db_->stats();
    const auto gets = static_cast<double>(std::max<uint64_t>(s.reads - s.scans, 1));
    const auto scans = static_cast<double>(std::max<uint64_t>(s.scans, 1));
    return StrCat("rounds ", s.rounds, ", merges ", s.merges, ", level0 runs ", s.level0_runs, ", Dranges ",
                  s.dranges, " (imbalance ", s.drange_imbalance, ", major ", s.reorganisations, ", waits ",
                  s.level0_waits, "), a get asks ", static_cast<double>(s.get_memtables) / gets,
                  " memtables and ", static_cast<double>(s.get_tables) / gets, " tables, a scan opens ",
                  static_cast<double>(s.scan_memtables) / scans, " memtables and ",
                  static_cast<double>(s.scan_tables) / scans, " tables, tables ", s.tables, ", table MB ",
                  s.bytes >> 20, ", memtable MB ", s.memtable_bytes >> 20, ", stalled s ",
                  static_cast<double>(s.stalled_ns) * 1e-9, ", paused s ",
                  static_cast<double>(s.paused_ns) * 1e-9);
  }

 private:
  std::unique_ptr<Disk> base_, disk_;  // a modelled disk, and what is below it
  std::unique_ptr<Db> db_;
  DbWriteOptions write_;
};

// As it comes, but for the sizes that every engine gets, and for what `change` says.
std::unique_ptr<Store> Open(const StoreOptions& o, const std::function<void(DbOptions*)>& change) {
  DbOptions options;
  options.memtable_bytes = o.memtable_bytes;
  options.cache_bytes = o.cache_bytes;
  options.log = o.log ? DbLog::kPersistent : DbLog::kNone;
  options.range.table.filter_bits_per_key = o.filter_bits_per_key;
  change(&options);
  return std::make_unique<NovaStore>(o, options);
}

}  // namespace

std::vector<Engine> NovaEngines() {
  std::vector<Engine> engines;
  const auto add = [&](std::string name, std::function<void(DbOptions*)> change) {
    engines.push_back({std::move(name), [change](const StoreOptions& o) { return Open(o, change); },
                       /*maps_files=*/false, /*takes_files=*/true});
  };
  add("nova", [](DbOptions*) {});
  add("nova-unmapped", [](DbOptions* o) { o->map_tables = false; });  // as an LTC reads: through its cache
  add("nova-lookup-index", [](DbOptions* o) { o->range.lookup_index = true; });
  for (const int runs : {4, 8, 12, 24}) {
    add(StrCat("nova-level0-", runs),
        [runs](DbOptions* o) { o->range.compaction.level0_runs_trigger = runs; });
  }
  for (const int mb : {512, 1024, 2048, 4096}) {
    const uint64_t bytes = static_cast<uint64_t>(mb) << 20;
    add(StrCat("nova-level1-", mb), [bytes](DbOptions* o) { o->range.compaction.level1_bytes = bytes; });
    add(StrCat("nova-level0-max-", mb),
        [bytes](DbOptions* o) { o->range.compaction.level0_max_bytes = bytes; });
  }
  for (const int dranges : {16, 64})
    add(StrCat("nova-dranges-", dranges), [dranges](DbOptions* o) { o->range.compaction.dranges = dranges; });
  return engines;
}

}  // namespace nova
