// FenceWriter, FenceTarget: the two ends of a fence test (verbs_fence.h); internal to files named verbs_*.
//
// Thread safety: one caller.   Ownership: they own their queue pairs and regions; the device outlives them.
// Errors: what the device refuses, by the name of its call.
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
inline constexpr size_t kFenceBytes = 4096;  // of a WRITE: a packet of the largest MTU

struct FenceTargetAddress {
  QueuePairAddress queue_pair;
  uint64_t memory = 0;  // kFenceBytes
  uint32_t rkey = 0;
};
struct FenceTaken {
  bool supported = true;
  double micros = 0;
  std::string why;  // not supported
};

// The end that is written to. Calls come in this order, Clear and Intact as often as asked.
class FenceTarget {
 public:
  virtual ~FenceTarget() = default;
  // afresh each time
  virtual StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) = 0;
  virtual StatusOr<std::optional<uint32_t>> Prepare() = 0;  // the key to write with; nullopt: not supported
  virtual Status Clear() = 0;
  virtual StatusOr<FenceTaken> Take() = 0;
  virtual StatusOr<bool> Intact() = 0;
};

// What both ends hold.
struct FenceEnd {
  FenceEnd() = default;
  ~FenceEnd();
  FenceEnd(const FenceEnd&) = delete;
  FenceEnd& operator=(const FenceEnd&) = delete;
  Status Open(const VerbsDevice& device);
  std::optional<ibv_wc_status> Completion() const;  // of the oldest request; nullopt: none in time

  std::vector<char> memory = std::vector<char>(kFenceBytes, '.');
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  ibv_mw* window = nullptr;
};

class FenceWriter {
 public:
  Status Open(const VerbsDevice& device) { return end_.Open(device); }
  const ibv_qp* queue_pair() const { return end_.qp; }
  Status Connect(const VerbsDevice& device, const QueuePairAddress& target) {
    return ConnectQueuePair(device, end_.qp, target);
  }
  std::optional<ibv_wc_status> Write(uint64_t memory, uint32_t rkey);

 private:
  FenceEnd end_;
};

class LocalFenceTarget final : public FenceTarget {
 public:
  explicit LocalFenceTarget(const VerbsDevice& device) : device_(device) {}
  StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) override;
  StatusOr<std::optional<uint32_t>> Prepare() override;
  Status Clear() override;
  StatusOr<FenceTaken> Take() override;
  StatusOr<bool> Intact() override;

 private:
  bool Register();
  bool Deregister();
  bool BindWindow();
  bool InvalidateWindow();
  bool TakeIt();

  const VerbsDevice& device_;
  FenceWay way_ = FenceWay::kNothing;
  std::unique_ptr<FenceEnd> end_;
  uint32_t window_key_ = 0;
};

}  // namespace nova
