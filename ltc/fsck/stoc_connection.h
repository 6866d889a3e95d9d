// StocConnection: an exchange thread and a StocClient over it, for a tool that asks StoCs.
//
// Thread safety: as StocClient.
// Ownership:     the fabric outlives it.
// Errors:        of Open: the fabric's.
#pragma once

#include <memory>

#include "stoc/stoc_client.h"

namespace nova {

class StocConnection {
 public:
  // `cluster`: StoCs of another one refuse (handshake, F3).
  static StatusOr<std::unique_ptr<StocConnection>> Open(Fabric* fabric, const Uuid& cluster);
  ~StocConnection() { xchg_->Stop(); }

  StocClient* client() { return &client_; }

 private:
  StocConnection(Fabric* fabric, std::unique_ptr<Xchg> xchg)
      : xchg_(std::move(xchg)), client_(fabric, {xchg_.get()}, {.transfer_bytes = kTransferBytes}) {}

  static constexpr size_t kTransferBytes = 1 << 20;  // of WRITEs and READs, of which there are none

  const std::unique_ptr<Xchg> xchg_;
  StocClient client_;
};

}  // namespace nova
