// ReceiveMemory: where a TcpPort's received bytes lie until its owner has looked at them: slabs, which all
// connections read into, and blocks, one for each long SEND. Internal to the tcp fabric.
//
// Thread safety: none; the port's thread.
// Ownership: owns all of it, and keeps it for ever: as much as was ever needed at a time.
// Errors: none.
#pragma once

#include <memory>
#include <span>
#include <vector>

namespace nova {

class ReceiveMemory {
 public:
  using Block = std::unique_ptr<std::byte[]>;

  explicit ReceiveMemory(size_t block_bytes) : block_bytes_(block_bytes) {}

  // Room to read into; empty: this turn has read enough.
  std::span<std::byte> Room() {
    if (slab_ < slabs_.size() && kSlabBytes - used_ < kMinRoom) {
      if (slab_ + 1 == kMaxSlabs) return {};
      ++slab_;
      used_ = 0;
    }
    if (slab_ == slabs_.size()) slabs_.push_back(std::make_unique<std::byte[]>(kSlabBytes));
    return {slabs_[slab_].get() + used_, kSlabBytes - used_};
  }
  // The first `n` bytes of Room were handed out.
  void Use(size_t n) { used_ += n; }

  Block TakeBlock() {
    if (free_blocks_.empty()) return std::make_unique<std::byte[]>(block_bytes_);
    Block block = std::move(free_blocks_.back());
    free_blocks_.pop_back();
    return block;
  }
  // The block was handed out.
  void Use(Block block) { used_blocks_.push_back(std::move(block)); }

  // The owner has looked at all that was handed out.
  void Recycle() {
    for (Block& block : used_blocks_) free_blocks_.push_back(std::move(block));
    used_blocks_.clear();
    slab_ = used_ = 0;
  }

 private:
  static constexpr size_t kSlabBytes = 64 * 1024;
  static constexpr size_t kMinRoom = 16 * 1024;
  static constexpr size_t kMaxSlabs = 16;  // read in one turn

  const size_t block_bytes_;
  std::vector<Block> slabs_;
  size_t slab_ = 0;  // the one in use, of slabs_
  size_t used_ = 0;  // bytes of it that were handed out
  std::vector<Block> free_blocks_;
  std::vector<Block> used_blocks_;
};

}  // namespace nova
