#include "client/nova.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "absl/strings/str_split.h"
#include "client/client.h"

struct nova_client {
  std::unique_ptr<nova::Client> client;
};
struct nova_batch {
  nova::WriteBatch batch;
};
struct nova_snapshot {
  std::shared_ptr<const nova::ClientSnapshot> snapshot;
};
struct nova_scan_result {
  nova::ScanResult scan;
};
struct nova_iterator {
  std::unique_ptr<nova::ClientIterator> iterator;
  nova::Result failed;  // a move that ran out of memory; it is not valid then
};
struct nova_values {
  nova::MultiGetResult values;
};

namespace {

static_assert(NOVA_INTERNAL == static_cast<int>(nova::Outcome::kInternal));
static_assert(NOVA_UNKNOWN == static_cast<int>(nova::Outcome::kUnknown));
static_assert(NOVA_CONDITION_FAILED == static_cast<int>(nova::Outcome::kConditionFailed));
static_assert(NOVA_SNAPSHOT_ENDED == static_cast<int>(nova::kMaxOutcome));

thread_local std::string last_error;

int Code(nova::Outcome o) { return static_cast<int>(o); }

int Report(const nova::Result& r) {
  last_error = r.message;
  return Code(r.outcome);
}

char* CopyOf(std::string_view text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

// NULL is not the empty string.
std::optional<std::string_view> Optional(const char* bytes, size_t size) {
  return bytes == nullptr ? std::nullopt : std::optional<std::string_view>({bytes, size});
}

std::shared_ptr<const nova::ClientSnapshot> SnapshotOf(const nova_snapshot* s) {
  return s == nullptr ? nullptr : s->snapshot;
}

nova::WriteOptions OptionsOf(const nova_write_options* o) {
  return o == nullptr ? nova::WriteOptions() : nova::WriteOptions{o->ttl_ms, o->no_sync == 0};
}

// No exception crosses the C boundary: memory that runs out is an internal error, of unknown effect.
template <typename Fn>
int Guarded(const Fn& fn) {
  try {
    return fn();
  } catch (const std::exception& e) {
    last_error = e.what();
    return NOVA_INTERNAL;
  }
}

// A move of an iterator.
template <typename MoveFn>
void Move(nova_iterator* it, const MoveFn& move) {
  const int code = Guarded([&] {
    move(it->iterator.get());
    return 0;
  });
  it->failed = code == NOVA_OK ? nova::Result{} : nova::Result{nova::Outcome::kInternal, last_error};
}

}  // namespace

extern "C" {

nova_client* nova_open(const char* coordinators, char** error) {
  const nova_options options{coordinators, 0, 0, 0};
  return nova_open_with(&options, error);
}

nova_client* nova_open_with(const nova_options* o, char** error) {
  try {
    nova::ClientOptions options;
    options.coordinators =
        absl::StrSplit(o->coordinators == nullptr ? "" : o->coordinators, ',', absl::SkipEmpty());
    if (o->timeout_ms != 0) options.timeout_ms = o->timeout_ms;
    if (o->threads != 0) options.threads = o->threads;
    options.keyspace = o->keyspace;
    auto client = nova::Client::Connect(options);
    if (client.ok()) return new nova_client{*std::move(client)};
    last_error = std::string(client.status().message());
  } catch (const std::exception& e) {
    last_error = e.what();
  }
  if (error != nullptr) *error = CopyOf(last_error);
  return nullptr;
}

void nova_close(nova_client* client) { delete client; }

int nova_put(nova_client* c, const char* key, size_t key_size, const char* value, size_t value_size) {
  return Guarded([&] { return Report(c->client->Put({key, key_size}, {value, value_size})); });
}

int nova_delete(nova_client* c, const char* key, size_t key_size) {
  return Guarded([&] { return Report(c->client->Delete({key, key_size})); });
}

int nova_put_with(nova_client* c, const nova_write_options* options, const char* key, size_t key_size,
                  const char* value, size_t value_size) {
  return Guarded([&] {
    return Report(c->client->Put({key, key_size}, {value, value_size}, OptionsOf(options)));
  });
}

int nova_delete_with(nova_client* c, const nova_write_options* options, const char* key, size_t key_size) {
  return Guarded([&] { return Report(c->client->Delete({key, key_size}, OptionsOf(options))); });
}

int nova_delete_range(nova_client* c, const char* begin, size_t begin_size, const char* end,
                      size_t end_size) {
  return Guarded([&] { return Report(c->client->DeleteRange({begin, begin_size}, {end, end_size})); });
}

int nova_put_ttl(nova_client* c, const char* key, size_t key_size, const char* value, size_t value_size,
                 int64_t ttl_ms) {
  return Guarded([&] {
    if (ttl_ms == 0) return Report({nova::Outcome::kInvalidArgument, "a time to live of 0 ms"});
    return Report(c->client->Put({key, key_size}, {value, value_size}, {ttl_ms}));
  });
}

int nova_compare_and_swap(nova_client* c, const char* key, size_t key_size, const char* expected,
                          size_t expected_size, const char* desired, size_t desired_size) {
  return Guarded([&] {
    return Report(c->client->CompareAndSwap({key, key_size}, Optional(expected, expected_size),
                                            Optional(desired, desired_size)));
  });
}

nova_batch* nova_batch_create(void) { return new (std::nothrow) nova_batch; }

int nova_batch_put(nova_batch* b, const char* key, size_t key_size, const char* value, size_t value_size) {
  return Guarded([&] {
    b->batch.Put({key, key_size}, {value, value_size});
    return NOVA_OK;
  });
}

int nova_batch_put_ttl(nova_batch* b, const char* key, size_t key_size, const char* value, size_t value_size,
                       int64_t ttl_ms) {
  return Guarded([&] {
    b->batch.PutTtl({key, key_size}, {value, value_size}, ttl_ms);
    return NOVA_OK;
  });
}

int nova_batch_delete(nova_batch* b, const char* key, size_t key_size) {
  return Guarded([&] {
    b->batch.Delete({key, key_size});
    return NOVA_OK;
  });
}

int nova_batch_delete_range(nova_batch* b, const char* begin, size_t begin_size, const char* end,
                            size_t end_size) {
  return Guarded([&] {
    b->batch.DeleteRange({begin, begin_size}, {end, end_size});
    return NOVA_OK;
  });
}

void nova_batch_clear(nova_batch* b) { b->batch.Clear(); }
void nova_batch_free(nova_batch* b) { delete b; }

int nova_write(nova_client* c, const nova_batch* b) {
  return Guarded([&] { return Report(c->client->Write(b->batch)); });
}

int nova_write_with(nova_client* c, const nova_write_options* options, const nova_batch* b) {
  return Guarded([&] { return Report(c->client->Write(b->batch, OptionsOf(options))); });
}

int nova_get(nova_client* c, const char* key, size_t key_size, char** value, size_t* value_size) {
  return nova_get_at(c, nullptr, key, key_size, value, value_size);
}

int nova_get_at(nova_client* c, const nova_snapshot* snapshot, const char* key, size_t key_size, char** value,
                size_t* value_size) {
  *value = nullptr;
  *value_size = 0;
  return Guarded([&] {
    const nova::GetResult r = c->client->Get({key, key_size}, {SnapshotOf(snapshot)});
    if (r.ok()) {
      *value = CopyOf(r.value);
      if (*value == nullptr) throw std::bad_alloc();
      *value_size = r.value.size();
    }
    return Report(r);
  });
}

int nova_snapshot_take(nova_client* c, nova_snapshot** snapshot) {
  *snapshot = nullptr;
  return Guarded([&] {
    nova::SnapshotResult r = c->client->TakeSnapshot();
    if (r.ok()) *snapshot = new nova_snapshot{std::move(r.snapshot)};
    return Report(r);
  });
}

void nova_snapshot_drop(nova_snapshot* snapshot) { delete snapshot; }

int nova_multi_get(nova_client* c, const nova_snapshot* snapshot, size_t count, const char* const* keys,
                   const size_t* key_sizes, nova_values** values) {
  *values = nullptr;
  return Guarded([&] {
    std::vector<std::string_view> views;
    for (size_t i = 0; i < count; ++i) views.emplace_back(keys[i], key_sizes[i]);
    nova::MultiGetResult r = c->client->MultiGet(views, {SnapshotOf(snapshot)});
    const int code = Report(r);
    if (code == NOVA_OK) *values = new nova_values{std::move(r)};
    return code;
  });
}

const char* nova_values_get(const nova_values* values, size_t i, size_t* size) {
  const std::optional<std::string>& value = values->values.values[i];
  *size = value ? value->size() : 0;
  return value ? value->data() : nullptr;
}

void nova_values_free(nova_values* values) { delete values; }

int nova_scan(nova_client* c, const char* from, size_t from_size, size_t limit, nova_scan_result** result) {
  if (limit == 0) {
    *result = nullptr;
    return Report({nova::Outcome::kInvalidArgument, "a scan of no entries"});
  }
  const nova_scan_options options{from, from_size, nullptr, 0, nullptr, 0, limit, 0, nullptr};
  return nova_scan_with(c, &options, result);
}

int nova_scan_with(nova_client* c, const nova_scan_options* o, nova_scan_result** result) {
  *result = nullptr;
  return Guarded([&] {
    nova::ScanOptions options;
    if (o->limit != 0) options.limit = o->limit;
    if (o->to != nullptr) options.to.assign(o->to, o->to_size);
    if (o->prefix != nullptr) options.prefix.assign(o->prefix, o->prefix_size);
    options.reverse = o->reverse != 0;
    options.snapshot = SnapshotOf(o->snapshot);
    nova::ScanResult r = c->client->Scan({o->from, o->from == nullptr ? 0 : o->from_size}, options);
    const int code = Report(r);
    if (code == NOVA_OK) *result = new nova_scan_result{std::move(r)};
    return code;
  });
}

size_t nova_scan_count(const nova_scan_result* result) { return result->scan.entries.size(); }

const char* nova_scan_key(const nova_scan_result* result, size_t i, size_t* size) {
  const std::string& key = result->scan.entries[i].first;
  *size = key.size();
  return key.data();
}

const char* nova_scan_value(const nova_scan_result* result, size_t i, size_t* size) {
  const std::string& value = result->scan.entries[i].second;
  *size = value.size();
  return value.data();
}

void nova_scan_free(nova_scan_result* result) { delete result; }

nova_iterator* nova_iterator_create(nova_client* c, const nova_iterator_options* o) {
  nova_iterator* iterator = nullptr;
  Guarded([&] {
    nova::IteratorOptions options;
    if (o != nullptr) {
      if (o->lower != nullptr) options.lower.assign(o->lower, o->lower_size);
      if (o->upper != nullptr) options.upper.assign(o->upper, o->upper_size);
      options.snapshot = SnapshotOf(o->snapshot);
    }
    iterator = new nova_iterator{c->client->NewIterator(options), {}};
    return 0;
  });
  return iterator;
}

void nova_iterator_seek_to_first(nova_iterator* it) {
  Move(it, [](nova::ClientIterator* i) { i->SeekToFirst(); });
}

void nova_iterator_seek_to_last(nova_iterator* it) {
  Move(it, [](nova::ClientIterator* i) { i->SeekToLast(); });
}

void nova_iterator_seek(nova_iterator* it, const char* key, size_t key_size) {
  Move(it, [&](nova::ClientIterator* i) { i->Seek({key, key_size}); });
}

void nova_iterator_seek_for_prev(nova_iterator* it, const char* key, size_t key_size) {
  Move(it, [&](nova::ClientIterator* i) { i->SeekForPrev({key, key_size}); });
}

int nova_iterator_valid(const nova_iterator* it) { return it->failed.ok() && it->iterator->Valid() ? 1 : 0; }

void nova_iterator_next(nova_iterator* it) {
  Move(it, [](nova::ClientIterator* i) { i->Next(); });
}

void nova_iterator_prev(nova_iterator* it) {
  Move(it, [](nova::ClientIterator* i) { i->Prev(); });
}

const char* nova_iterator_key(const nova_iterator* it, size_t* size) {
  *size = it->iterator->key().size();
  return it->iterator->key().data();
}

const char* nova_iterator_value(const nova_iterator* it, size_t* size) {
  *size = it->iterator->value().size();
  return it->iterator->value().data();
}

int nova_iterator_outcome(const nova_iterator* it) {
  return Report(it->failed.ok() ? it->iterator->result() : it->failed);
}

void nova_iterator_free(nova_iterator* it) { delete it; }

void nova_put_async(nova_client* c, const char* key, size_t key_size, const char* value, size_t value_size,
                    nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->PutAsync({key, key_size}, {value, value_size},
                        [done, arg](const nova::Result& r) { done(arg, Code(r.outcome), nullptr, 0); });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

void nova_delete_async(nova_client* c, const char* key, size_t key_size, nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->DeleteAsync({key, key_size},
                           [done, arg](const nova::Result& r) { done(arg, Code(r.outcome), nullptr, 0); });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

void nova_delete_range_async(nova_client* c, const char* begin, size_t begin_size, const char* end,
                             size_t end_size, nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->DeleteRangeAsync({begin, begin_size}, {end, end_size}, [done, arg](const nova::Result& r) {
      done(arg, Code(r.outcome), nullptr, 0);
    });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

void nova_get_async(nova_client* c, const char* key, size_t key_size, nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->GetAsync({key, key_size}, [done, arg](const nova::GetResult& r) {
      done(arg, Code(r.outcome), r.value.data(), r.value.size());
    });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

void nova_write_async(nova_client* c, const nova_batch* b, nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->WriteAsync(b->batch,
                          [done, arg](const nova::Result& r) { done(arg, Code(r.outcome), nullptr, 0); });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

void nova_compare_and_swap_async(nova_client* c, const char* key, size_t key_size, const char* expected,
                                 size_t expected_size, const char* desired, size_t desired_size,
                                 nova_done done, void* arg) {
  const int code = Guarded([&] {
    c->client->CompareAndSwapAsync(
        {key, key_size}, Optional(expected, expected_size), Optional(desired, desired_size),
        [done, arg](const nova::Result& r) { done(arg, Code(r.outcome), nullptr, 0); });
    return 0;
  });
  if (code != NOVA_OK) done(arg, code, nullptr, 0);
}

nova_effect nova_effect_of(int outcome) {
  return static_cast<nova_effect>(nova::EffectOf(static_cast<nova::Outcome>(outcome)));
}

const char* nova_outcome_name(int outcome) {
  return nova::OutcomeName(static_cast<nova::Outcome>(outcome)).data();  // literals, ended by 0
}

const char* nova_last_error(void) { return last_error.c_str(); }
uint64_t nova_retries(const nova_client* c) { return c->client->retries(); }

char* nova_status(nova_client* c) {
  try {
    return CopyOf(c->client->StatusText());
  } catch (const std::exception&) {
    return nullptr;
  }
}

void nova_free(void* memory) { std::free(memory); }

}  // extern "C"
