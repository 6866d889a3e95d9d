// KeyNode, KeyVersion: a key of a memtable, and one of its versions. Both lie in the memtable's arena; a node
// is in the hash table, on the chain of keys, and in one place of one key order (ltc/engine/key_order.h).
//
// Thread safety: fields that are no atomics are constant once the node or the version is linked.
// Ownership: of the arena.
// Errors: none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/log.h"

namespace nova {

struct KeyNode;

// A link in the chain of a hash bucket: the address of a node, in 48 bits, and above it a bit for each
// sixteenth of all hashes, set if the chain has such a key from there on. So a search for a key that is not
// there mostly ends at the bucket, and touches no node.
class BucketLink {
 public:
  constexpr BucketLink() = default;  // the end of a chain
  // `node`, whose key has this hash, before the chain that `rest` begins.
  BucketLink(KeyNode* node, uint64_t hash, BucketLink rest)
      : bits_(reinterpret_cast<uint64_t>(node) | (rest.bits_ & ~kAddress) | BitOf(hash)) {
    NOVA_CHECK(this->node() == node) << "an address of more than 48 bits";
  }

  KeyNode* node() const { return reinterpret_cast<KeyNode*>(bits_ & kAddress); }  // null: the end
  bool MayHold(uint64_t hash) const { return (bits_ & BitOf(hash)) != 0; }

 private:
  static constexpr uint64_t kAddress = (uint64_t{1} << 48) - 1;
  static uint64_t BitOf(uint64_t hash) { return uint64_t{1} << (48 + (hash >> 60)); }

  uint64_t bits_ = 0;
};
static_assert(std::atomic<BucketLink>::is_always_lock_free);

// In the arena: this struct, the value.
struct KeyVersion {
  uint64_t trailer;
  std::atomic<KeyVersion*> older;
  KeyNode* node;  // of the key; not in the table yet if brings_node
  uint32_t value_size;
  bool brings_node;  // its first version, as far as Prepare saw

  SequenceNumber sequence() const { return trailer >> 8; }
  std::string_view value() const { return {reinterpret_cast<const char*>(this + 1), value_size}; }
};

// In the arena: this struct, the stored key up to a multiple of 8 bytes, `height` links.
struct KeyNode {
  static constexpr int kMaxHeight = 12;

  std::atomic<KeyVersion*> newest;
  std::atomic<BucketLink> next_in_bucket;
  KeyNode* older_in_chain;
  uint32_t key_size;
  uint16_t height;
  std::atomic<bool> chained;
  uint64_t hash;

  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  std::string_view key() const { return {bytes(), key_size}; }
  // The next node of its list, on a level below `height`.
  std::atomic<KeyNode*>& next(int level) const {
    const size_t links = (key_size + size_t{7}) & ~size_t{7};
    return reinterpret_cast<std::atomic<KeyNode*>*>(const_cast<char*>(bytes()) + links)[level];
  }
  static size_t Bytes(size_t key_size, int height) {
    return sizeof(KeyNode) + ((key_size + 7) & ~size_t{7}) + sizeof(void*) * static_cast<size_t>(height);
  }
};
static_assert(sizeof(KeyVersion) == 32 && sizeof(KeyNode) == 40);

}  // namespace nova
