// What the tests of common/sstable share: a model of a table, tables kept in memory, and hex.
//
// Thread safety: none.   Ownership: values.   Errors: a test failure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/coding.h"
#include "common/base/random.h"
#include "common/sstable/table_builder.h"
#include "common/sstable/table_iterator.h"
#include "gtest/gtest.h"

namespace nova {

struct InternalKeyLess {
  bool operator()(const std::string& a, const std::string& b) const { return CompareInternalKeys(a, b) < 0; }
};
using Model = std::map<std::string, std::string, InternalKeyLess>;  // internal key -> value

inline std::string InternalKey(std::string_view stored_key, SequenceNumber seq,
                               ValueType type = ValueType::kPut) {
  std::string key;
  AppendInternalKey(&key, stored_key, seq, type);
  return key;
}

inline std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (unsigned char c : bytes) {
    hex.push_back("0123456789abcdef"[c >> 4]);
    hex.push_back("0123456789abcdef"[c & 15]);
  }
  return hex;
}

// A table as its builder left it, and its reader.
struct TestTable {
  TableBuilder::Output output;
  std::shared_ptr<const TableReader> reader;

  std::string Raw(const BlockHandle& handle) const { return output.data.substr(handle.offset, handle.size); }
  BlockRef Block(const BlockHandle& handle) const {
    auto block = reader->CheckBlock(handle, Raw(handle));
    EXPECT_TRUE(block.ok()) << block.status();
    return block.ok() ? *block : BlockRef();
  }
};

inline TestTable BuildTable(const Model& model, const TableOptions& options = {}, const Uuid& uuid = {1, 2},
                            std::string_view use_from = "", std::string_view use_to = "") {
  TableBuilder builder(options, uuid);
  for (const auto& [key, value] : model) builder.Add(key, value);
  TestTable table;
  table.output = builder.Finish();
  table.output.info.use_from = use_from;
  table.output.info.use_to = use_to;
  auto reader = TableReader::Open(table.output.info, table.output.metadata);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (reader.ok()) table.reader = *reader;
  return table;
}

inline TableOptions RandomOptions(Random* random) {
  TableOptions options;
  options.block_size_bytes = size_t{1} << random->Uniform(15);
  options.restart_interval = 1 + static_cast<int>(random->Uniform(20));
  options.filter_bits_per_key = static_cast<int>(random->Uniform(13));
  options.compression = static_cast<Compression>(random->Uniform(3));
  return options;
}

// Keys that are prefixes of one another, share long prefixes, hold zero and 0xff bytes.
inline std::string RandomKey(Random* random) {
  static constexpr char kAlphabet[] = {'\0', 'a', 'b', '\xff'};
  std::string key = random->OneIn(2) ? "a common prefix of keys" : "";
  const size_t n = 1 + random->Uniform(6);
  for (size_t i = 0; i < n; ++i) key.push_back(kAlphabet[random->Uniform(4)]);
  return key;
}

inline std::string RandomValue(Random* random) {
  const size_t n = random->OneIn(50) ? random->Uniform(100000) : random->Uniform(200);
  std::string value(n, '\0');
  for (char& c : value) c = static_cast<char>(random->Next());
  return value;
}

inline Model RandomModel(Random* random, size_t entries) {
  Model model;
  std::string hot = RandomKey(random);
  while (model.size() < entries) {
    const std::string key = random->OneIn(3) ? hot : RandomKey(random);
    const auto type = random->OneIn(5) ? ValueType::kDelete : ValueType::kPut;
    model[InternalKey(key, 1 + random->Uniform(10 * entries), type)] =
        type == ValueType::kPut ? RandomValue(random) : std::string();
  }
  return model;
}

// The newest version of `key` at or below `seq`, as the model has it; null if none.
inline const Model::value_type* ModelGet(const Model& model, std::string_view key, SequenceNumber seq) {
  const auto it = model.lower_bound(MakeSeekKey(key, seq));
  return it == model.end() || StoredKeyOf(it->first) != key ? nullptr : &*it;
}

// A lookup that has each block with probability 1 / `one_in`; 0: never.
inline BlockLookup FlakyLookup(const TestTable* table, Random* random, uint64_t one_in) {
  return [=](const TableReader&, const BlockHandle& handle) -> BlockRef {
    return one_in != 0 && random->OneIn(one_in) ? table->Block(handle) : BlockRef();
  };
}

// Fetches what `it` needs until it stands somewhere. `tables` finds a reader's bytes.
inline void Settle(Iterator* it, const std::map<const TableReader*, const TestTable*>& tables) {
  std::vector<BlockRequest> needed;
  while (it->state() == Iterator::State::kNeedBlocks) {
    needed.clear();
    it->AppendNeeded(&needed);
    ASSERT_FALSE(needed.empty());
    for (const BlockRequest& r : needed) {
      if (r.iterator != nullptr) r.iterator->Supply(r.handle, tables.at(r.table)->Block(r.handle));
    }
    it->Resume();
  }
}

}  // namespace nova
