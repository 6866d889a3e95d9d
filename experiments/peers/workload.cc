#include "experiments/peers/workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/base/zipfian.h"

namespace nova {

std::vector<Workload> AllWorkloads() {
  return {{"R100", 0, 0},  {"M100", 0, 0, 100}, {"S100", 0, 100},
          {"RW50", 50, 0}, {"SW50", 50, 50},    {"W100", 100, 0}};
}

Workload WorkloadNamed(const std::string& name) {
  for (Workload& w : AllWorkloads()) {
    if (w.name == name) return w;
  }
  Fail("there is no workload " + name);
}

Sequence::Sequence(Distribution distribution, uint64_t records, uint64_t seed) {
  Random random(seed);
  const Zipfian zipfian(records);
  numbers_.reserve(kLength);
  for (size_t i = 0; i < kLength; ++i) {
    const uint64_t n =
        distribution == Distribution::kUniform ? random.Uniform(records) : zipfian.Next(&random);
    numbers_.push_back(static_cast<uint32_t>(
        distribution == Distribution::kZipfianScrambled ? ScrambledRank(n) % records : n));
  }
}

Keys::Keys(const RecordOptions& options)
    : digits_begin_(options.shared_bytes + 4),
      digits_end_(std::min(digits_begin_ + 16, options.key_bytes)),
      key_(std::string(options.shared_bytes, 's') + "user") {
  key_.resize(options.key_bytes, 'f');
}

std::string_view Keys::Of(uint64_t record) {
  for (size_t i = digits_end_; i > digits_begin_; record /= 10)
    key_[--i] = static_cast<char>('0' + record % 10);
  return key_;
}

Values::Values(const RecordOptions& options)
    : least_(options.value_bytes), most_(std::max(options.value_bytes, options.max_value_bytes)) {
  Random random(1);
  noise_.resize(most_ + 4096);
  for (char& c : noise_) c = static_cast<char>(random.Next());
}

// Where sizes differ, each power of two between the bounds is as likely as another.
std::string_view Values::For(std::string_view key, uint64_t salt) {
  size_t size = least_;
  if (most_ > least_) {
    const double place = static_cast<double>(salt * 0x9e3779b97f4a7c15 >> 11) * 0x1p-53;
    size = static_cast<size_t>(static_cast<double>(least_) *
                               std::pow(static_cast<double>(most_) / static_cast<double>(least_), place));
  }
  char* value = noise_.data() + salt % (noise_.size() - size + 1);
  std::memcpy(value, key.data(), std::min(key.size(), size));
  return {value, size};
}

bool IsValueOf(std::string_view key, std::string_view value, const RecordOptions& options) {
  const size_t most = std::max(options.value_bytes, options.max_value_bytes);
  return value.size() >= options.value_bytes && value.size() <= most &&
         value.substr(0, key.size()) == key.substr(0, value.size());
}

void Load(Store* store, const RecordOptions& options) {
  std::vector<uint32_t> order(options.count);
  std::iota(order.begin(), order.end(), 0u);
  Random random(7);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Uniform(i)]);
  Keys keys(options);
  Values values(options);
  for (const uint32_t record : order) {
    const std::string_view key = keys.Of(record);
    store->Put(key, values.For(key, record));
  }
}

Mix::Mix(Store* store, const Workload& workload, const RecordOptions& options, Sequence sequence,
         uint64_t seed)
    : store_(store),
      workload_(workload),
      options_(options),
      sequence_(std::move(sequence)),
      random_(seed),
      keys_(options),
      values_(options) {}

Mix::Operation Mix::RunOne() {
  const std::string_view key = keys_.Of(options_.one_hot ? options_.count / 2 : sequence_.Next());
  const int dice = static_cast<int>(random_.Uniform(100));
  if (dice < workload_.write_percent) {
    store_->Put(key, values_.For(key, random_.Next()));
    return Operation::kPut;
  }
  if (dice < workload_.write_percent + workload_.scan_percent) {
    ScanFrom(key);
    return Operation::kScan;
  }
  if (dice < workload_.write_percent + workload_.scan_percent + workload_.multiget_percent) {
    GetSeveral();
    return Operation::kMultiGet;
  }
  if (!store_->Get(key, &value_) || !IsValueOf(key, value_, options_)) {
    Fail("a get returned nothing, or a wrong value");
  }
  return Operation::kGet;
}

void Mix::ScanFrom(std::string_view key) {
  uint64_t seen = 0;
  const uint64_t limit = workload_.without_limit ? UINT64_MAX : options_.scan_length;
  store_->Scan(key, limit, [&](std::string_view found, std::string_view value) {
    if (seen++ == 0 && found != key) Fail("a scan does not start at its key");
    if (!IsValueOf(found, value, options_)) Fail("a scan returned a wrong value");
    return seen < options_.scan_length;
  });
  if (seen == 0) Fail("a scan returned nothing");
}

void Mix::GetSeveral() {
  several_.resize(options_.scan_length);
  for (std::string& key : several_) key = keys_.Of(sequence_.Next());
  store_->MultiGet(several_, &values_of_several_);
  for (size_t i = 0; i < several_.size(); ++i) {
    const auto& value = values_of_several_[i];
    if (!value || !IsValueOf(several_[i], *value, options_))
      Fail("a multi-get missed a value, or has a wrong one");
  }
}

}  // namespace nova
