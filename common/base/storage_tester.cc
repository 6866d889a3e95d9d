#include "common/base/storage_tester.h"

#include <map>

#include "common/base/random.h"

namespace nova {
namespace {

class Tester {
 public:
  Tester(TestedStore* store, const StorageTesterOptions& options)
      : store_(store), options_(options), random_(options.seed) {}

  StatusOr<uint64_t> Run() {
    for (number_ = 0; number_ < options_.operations; ++number_) {
      NOVA_RETURN_IF_ERROR(Step());
      if (options_.disturb_every > 0 && (number_ + 1) % options_.disturb_every == 0)
        NOVA_RETURN_IF_ERROR(store_->Disturb());
    }
    NOVA_RETURN_IF_ERROR(Scan("", model_.size() + 1));
    return digest_;
  }

 private:
  Status Step() {
    const OperationMix& mix = options_.mix;
    auto dice = static_cast<int>(
        random_.Uniform(static_cast<uint64_t>(mix.put + mix.remove + mix.remove_range + mix.get + mix.scan)));
    const std::string key = PickKey();
    if ((dice -= mix.put) < 0) {
      std::string value(random_.Uniform(options_.max_value_bytes + 1), '\0');
      for (size_t i = 0; i < value.size(); i += 7) value[i] = static_cast<char>(random_.Next());
      NOVA_RETURN_IF_ERROR(Annotate(store_->Put(key, value), Name("put", key)));
      model_[key] = std::move(value);
      return OkStatus();
    }
    if ((dice -= mix.remove) < 0) {
      NOVA_RETURN_IF_ERROR(Annotate(store_->Delete(key), Name("delete", key)));
      model_.erase(key);
      return OkStatus();
    }
    if ((dice -= mix.remove_range) < 0) return DeleteRange(key);
    if ((dice -= mix.get) < 0) return Get(key);
    return Scan(key, 1 + random_.Uniform(options_.max_scan));
  }

  // Mostly of a few keys, sometimes of none; ends are keys that are there, keys that are not, and now and
  // then the end of all.
  Status DeleteRange(const std::string& begin) {
    const auto first = model_.lower_bound(begin);
    auto last = first;
    for (uint64_t n = random_.Uniform(random_.OneIn(8) ? options_.max_removed_keys : 10);
         n > 0 && last != model_.end(); --n)
      ++last;
    std::string end = last == model_.end() ? "" : last->first;
    if (!end.empty() && random_.OneIn(3)) end.push_back('\0');
    if (!end.empty() && end <= begin) end = begin + '\0';
    NOVA_RETURN_IF_ERROR(Annotate(store_->DeleteRange(begin, end), Name("delete-range", begin)));
    model_.erase(first, end.empty() ? model_.end() : model_.lower_bound(end));
    return OkStatus();
  }

  Status Get(const std::string& key) {
    const auto expected = model_.find(key);
    const StatusOr<std::string> got = store_->Get(key);
    if (!got.ok() && !absl::IsNotFound(got.status())) return Annotate(got.status(), Name("get", key));
    Note(got.ok() ? *got : "");
    if (got.ok() != (expected != model_.end()))
      return Wrong("get", key, got.ok() ? "a value of a key that is not there" : "no value");
    if (got.ok() && *got != expected->second) return Wrong("get", key, "another value");
    return OkStatus();
  }

  Status Scan(const std::string& from, size_t limit) {
    const auto got = store_->Scan(from, limit);
    if (!got.ok()) return Annotate(got.status(), Name("scan", from));
    auto expected = model_.lower_bound(from);
    size_t n = 0;
    for (const auto& [key, value] : *got) {
      Note(key);
      Note(value);
      if (n++ == limit) return Wrong("scan", from, "more entries than the limit");
      if (expected == model_.end()) return Wrong("scan", from, StrCat("an entry behind the last: ", key));
      if (key != expected->first)
        return Wrong("scan", from, StrCat("key ", key, " where ", expected->first, " comes next"));
      if (value != expected->second) return Wrong("scan", from, StrCat("another value of ", key));
      ++expected;
    }
    if (n < limit && expected != model_.end())
      return Wrong("scan", from, StrCat("an end before ", expected->first));
    return OkStatus();
  }

  std::string PickKey() {
    if (!model_.empty() && random_.NextDouble() < options_.known_key_rate) {
      const auto at = model_.lower_bound(RandomKey());
      return at == model_.end() ? model_.rbegin()->first : at->first;
    }
    return RandomKey();
  }
  std::string RandomKey() {
    size_t size = 1;
    while (size < options_.max_key_bytes && !random_.OneIn(6)) ++size;
    std::string key(size, '\0');
    for (char& c : key) c = static_cast<char>(random_.OneIn(20) ? random_.Next() : 'a' + random_.Uniform(4));
    return key;
  }

  void Note(std::string_view answer) {  // FNV-1a
    for (const char c : answer) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    digest_ = (digest_ ^ answer.size()) * 0x100000001b3;
  }
  std::string Name(const char* operation, const std::string& key) const {
    std::string name = StrCat("operation ", number_, " of seed ", options_.seed, ", ", operation, " ");
    for (const char c : key) name += StrCat(absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    return name;
  }
  Status Wrong(const char* operation, const std::string& key, absl::string_view what) const {
    return absl::InternalError(StrCat(Name(operation, key), " gave ", what));
  }

  TestedStore* const store_;
  const StorageTesterOptions options_;
  Random random_;
  std::map<std::string, std::string> model_;
  uint64_t number_ = 0;
  uint64_t digest_ = 0xcbf29ce484222325;
};

}  // namespace

StatusOr<uint64_t> TestStorage(TestedStore* store, const StorageTesterOptions& options) {
  return Tester(store, options).Run();
}

}  // namespace nova
