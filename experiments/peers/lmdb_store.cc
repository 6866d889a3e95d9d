#include <lmdb.h>

#include <utility>

#include "common/base/status.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

constexpr size_t kMapBytes = size_t{256} << 30;  // of address space: how far a database may grow
constexpr unsigned kReaders = 1024;              // threads that read at once

void Check(int code, const char* what) {
  if (code != MDB_SUCCESS) Fail(StrCat("lmdb: ", what, ": ", mdb_strerror(code)));
}

// Ends with abort(): reads change nothing, and a write says Commit.
class Transaction {
 public:
  Transaction(MDB_env* env, unsigned flags) {
    Check(mdb_txn_begin(env, nullptr, flags, &txn_), "a transaction");
  }
  ~Transaction() {
    if (txn_ != nullptr) mdb_txn_abort(txn_);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void Commit() { Check(mdb_txn_commit(std::exchange(txn_, nullptr)), "commit"); }
  operator MDB_txn*() { return txn_; }

 private:
  MDB_txn* txn_ = nullptr;
};

class Cursor {
 public:
  Cursor(MDB_txn* txn, MDB_dbi table) { Check(mdb_cursor_open(txn, table, &cursor_), "a cursor"); }
  ~Cursor() { mdb_cursor_close(cursor_); }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  operator MDB_cursor*() { return cursor_; }

 private:
  MDB_cursor* cursor_ = nullptr;
};

MDB_val Val(std::string_view s) { return {s.size(), const_cast<char*>(s.data())}; }
std::string_view View(const MDB_val& v) { return {static_cast<const char*>(v.mv_data), v.mv_size}; }

// A B-tree in a mapped file: no memtable, no cache but the page cache, no background work; one writer at a
// time.
class LmdbStore : public Store {
 public:
  explicit LmdbStore(const StoreOptions& o) {
    if (o.disk != nullptr) Fail("lmdb: mapped reads would pass by the modelled disk");
    Check(mdb_env_create(&env_), "open");
    Check(mdb_env_set_mapsize(env_, kMapBytes), "the size of the mapping");
    Check(mdb_env_set_maxreaders(env_, kReaders), "the number of readers");
    Check(mdb_env_open(env_, o.directory.c_str(), MDB_NOSYNC | MDB_NORDAHEAD, 0644), "open");
    Transaction txn(env_, 0);
    Check(mdb_dbi_open(txn, nullptr, 0, &table_), "open");
    txn.Commit();
  }
  ~LmdbStore() override { mdb_env_close(env_); }
  void SetSync(bool on) override { Check(mdb_env_set_flags(env_, MDB_NOSYNC, on ? 0 : 1), "sync"); }
  void Put(std::string_view key, std::string_view value) override {
    Transaction txn(env_, 0);
    MDB_val k = Val(key), v = Val(value);
    Check(mdb_put(txn, table_, &k, &v, 0), "put");
    txn.Commit();
  }
  void Delete(std::string_view key) override {
    Transaction txn(env_, 0);
    MDB_val k = Val(key);
    if (const int code = mdb_del(txn, table_, &k, nullptr); code != MDB_NOTFOUND) Check(code, "delete");
    txn.Commit();
  }
  // It has none: what is there is deleted key by key, at once.
  void DeleteRange(std::string_view begin, std::string_view end) override {
    Transaction txn(env_, 0);
    {
      Cursor cursor(txn, table_);
      MDB_val k = Val(begin), v;
      int code = mdb_cursor_get(cursor, &k, &v, begin.empty() ? MDB_FIRST : MDB_SET_RANGE);
      while (code == MDB_SUCCESS && (end.empty() || View(k) < end)) {
        Check(mdb_cursor_del(cursor, 0), "delete");
        code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);  // the one behind what is gone
      }
      if (code != MDB_NOTFOUND) Check(code, "delete");
    }
    txn.Commit();
  }
  bool Get(std::string_view key, std::string* value) override {
    Transaction txn(env_, MDB_RDONLY);
    MDB_val k = Val(key), v;
    const int code = mdb_get(txn, table_, &k, &v);
    if (code == MDB_NOTFOUND) return false;
    Check(code, "get");
    value->assign(View(v));
    return true;
  }
  void Scan(std::string_view from, uint64_t limit,
            const std::function<bool(std::string_view, std::string_view)>& entry) override {
    Transaction txn(env_, MDB_RDONLY);
    Cursor cursor(txn, table_);
    MDB_val k = Val(from), v;
    int code = mdb_cursor_get(cursor, &k, &v, from.empty() ? MDB_FIRST : MDB_SET_RANGE);
    for (; code == MDB_SUCCESS && limit > 0; --limit) {
      if (!entry(View(k), View(v))) return;
      code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    if (code != MDB_NOTFOUND) Check(code, "scan");
  }
  void WaitIdle() override { Check(mdb_env_sync(env_, 1), "sync"); }

 private:
  MDB_env* env_ = nullptr;
  MDB_dbi table_ = 0;
};

}  // namespace

std::vector<Engine> LmdbEngines() {
  return {
      {"lmdb", [](const StoreOptions& o) { return std::make_unique<LmdbStore>(o); }, /*maps_files=*/true}};
}

}  // namespace nova
