// FenceWriter, FenceTarget: the two ends of a fence test (verbs_fence.h). Internal to files named verbs_*.
//
// Thread safety: one caller.
// Ownership: they own their queue pairs and regions. The device outlives them.
// Errors: the call that the device refuses, by its name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/rdma/verbs/verbs_device.h"

namespace nova {

// The ways of taking rights away, in the order they are tried.
enum class FenceWay : uint8_t {
  kNothing,
  kDeregister,
  kReRegister,
  kBreakQueuePair,
  kDropAccess,
  kChangeAccess,
  kWindow
};
inline constexpr int kFenceWays = 7;
inline constexpr size_t kFenceBytes = 4096;  // bytes of a WRITE: a packet of the largest MTU

// Where a writer reaches the target.
struct FenceTargetAddress {
  QueuePairAddress queue_pair;
  uint64_t memory = 0;  // address of kFenceBytes bytes
  uint32_t rkey = 0;
};
// What became of taking the rights away.
struct FenceTaken {
  bool supported = true;  // the device can do it
  double micros = 0;      // time it took
  std::string why;        // why it is not supported
};

// The end that is written to. Calls come in the order of declaration; Clear and Intact as often as wanted.
class FenceTarget {
 public:
  virtual ~FenceTarget() = default;
  // Opens a queue pair and memory for one way; afresh each time.
  virtual StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) = 0;
  // The key to write with; nullopt: not supported.
  virtual StatusOr<std::optional<uint32_t>> Prepare() = 0;
  // Restores the memory that is written to.
  virtual Status Clear() = 0;
  virtual StatusOr<FenceTaken> Take() = 0;  // takes the writer's rights away
  virtual StatusOr<bool> Intact() = 0;      // the memory is as Clear left it
};

// The queue pair and memory of one end.
struct FenceEnd {
  FenceEnd() = default;
  ~FenceEnd();
  FenceEnd(const FenceEnd&) = delete;
  FenceEnd& operator=(const FenceEnd&) = delete;
  Status Open(const VerbsDevice& device);  // an error leaves it closed
  // The completion of the oldest request; nullopt: none in time.
  std::optional<ibv_wc_status> Completion() const;

  std::vector<char> memory = std::vector<char>(kFenceBytes, '.');
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  ibv_mw* window = nullptr;
};

// The end that writes.
class FenceWriter {
 public:
  Status Open(const VerbsDevice& device) { return end_.Open(device); }
  const ibv_qp* queue_pair() const { return end_.qp; }
  Status Connect(const VerbsDevice& device, const QueuePairAddress& target) {
    return ConnectQueuePair(device, end_.qp, target);
  }
  // Posts a WRITE, waits for its completion; nullopt: none in time.
  std::optional<ibv_wc_status> Write(uint64_t memory, uint32_t rkey);

 private:
  FenceEnd end_;
};

// A target on a device of this process.
class LocalFenceTarget final : public FenceTarget {
 public:
  explicit LocalFenceTarget(const VerbsDevice& device) : device_(device) {}
  StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) override;
  StatusOr<std::optional<uint32_t>> Prepare() override;
  Status Clear() override;
  StatusOr<FenceTaken> Take() override;
  StatusOr<bool> Intact() override;

 private:
  // Registers the memory; false: refused by the device.
  bool Register();
  bool Deregister();  // ibv_dereg_mr
  // Binds a memory window over the memory, for WRITEs.
  bool BindWindow();
  bool InvalidateWindow();  // LOCAL_INV of the window
  bool TakeIt();            // takes the rights away by way_

  const VerbsDevice& device_;
  FenceWay way_ = FenceWay::kNothing;
  std::unique_ptr<FenceEnd> end_;
  uint32_t window_key_ = 0;  // rkey of the window
};

}  // namespace nova
