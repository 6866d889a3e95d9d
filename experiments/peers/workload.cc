#include "experiments/peers/workload.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/zipfian.h"

namespace nova {

std::vector<Workload> AllWorkloads() {
  return {{"R100", 0, 0}, {"S100", 0, 100}, {"RW50", 50, 0}, {"SW50", 50, 50}, {"W100", 100, 0}};
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

Values::Values(size_t size) : size_(size) {
  Random random(1);
  noise_.resize(size + 4096);
  for (char& c : noise_) c = static_cast<char>(random.Next());
}

std::string_view Values::For(std::string_view key, uint64_t salt) {
  char* value = noise_.data() + salt % (noise_.size() - size_ + 1);
  std::memcpy(value, key.data(), std::min(key.size(), size_));
  return {value, size_};
}

bool IsValueOf(std::string_view key, std::string_view value, size_t size) {
  return value.size() == size && value.substr(0, key.size()) == key.substr(0, size);
}

void Load(Store* store, const RecordOptions& options) {
  std::vector<uint32_t> order(options.count);
  std::iota(order.begin(), order.end(), 0u);
  Random random(7);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Uniform(i)]);
  Values values(options.value_bytes);
  char key[kKeyBytes];
  for (const uint32_t record : order) {
    WriteKey(record, key);
    store->Put({key, kKeyBytes}, values.For({key, kKeyBytes}, record));
  }
}

Mix::Mix(Store* store, const Workload& workload, const RecordOptions& options, Sequence sequence,
         uint64_t seed)
    : store_(store),
      workload_(workload),
      options_(options),
      sequence_(std::move(sequence)),
      random_(seed),
      values_(options.value_bytes) {}

Mix::Operation Mix::RunOne() {
  char bytes[kKeyBytes];
  WriteKey(sequence_.Next(), bytes);
  const std::string_view key(bytes, kKeyBytes);
  const int dice = static_cast<int>(random_.Uniform(100));
  if (dice < workload_.write_percent) {
    store_->Put(key, values_.For(key, random_.Next()));
    return Operation::kPut;
  }
  if (dice < workload_.write_percent + workload_.scan_percent) {
    ScanFrom(key);
    return Operation::kScan;
  }
  if (!store_->Get(key, &value_) || !IsValueOf(key, value_, options_.value_bytes)) {
    Fail("a get returned nothing, or a wrong value");
  }
  return Operation::kGet;
}

void Mix::ScanFrom(std::string_view key) {
  uint64_t seen = 0;
  store_->Scan(key, options_.scan_length, [&](std::string_view found, std::string_view value) {
    if (seen++ == 0 && found != key) Fail("a scan does not start at its key");
    if (!IsValueOf(found, value, options_.value_bytes)) Fail("a scan returned a wrong value");
    return true;
  });
  if (seen == 0) Fail("a scan returned nothing");
}

}  // namespace nova
