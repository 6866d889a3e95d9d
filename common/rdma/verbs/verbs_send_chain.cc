#include "common/rdma/verbs/verbs_send_chain.h"

#include <arpa/inet.h>

namespace nova {
namespace {

ibv_wr_opcode OpcodeOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return IBV_WR_SEND;
    case Opcode::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Opcode::kWriteWithImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Opcode::kRead:
      break;
  }
  return IBV_WR_RDMA_READ;
}

}  // namespace

ibv_send_wr& VerbsSendChain::Add(const WorkRequest& request, uint64_t id) {
  ibv_send_wr& wr = requests_[size_];
  wr = {};
  wr.wr_id = id;
  wr.sg_list = &pieces_[pieces_used_];
  for (size_t i = 0; i < request.piece_count; ++i) {
    const auto& piece = request.pieces[i];
    if (piece.length == 0) continue;  // some devices read a length of 0 as 2 GiB
    pieces_[pieces_used_++] = {reinterpret_cast<uint64_t>(piece.address), piece.length, piece.lkey};
    ++wr.num_sge;
  }
  wr.opcode = OpcodeOf(request.opcode);
  wr.imm_data = htonl(request.immediate);
  wr.wr.rdma.remote_addr = request.remote_address;
  wr.wr.rdma.rkey = request.rkey;
  if (size_ > 0) requests_[size_ - 1].next = &wr;
  ++size_;
  return wr;
}

ibv_send_wr* VerbsSendChain::Finish() {
  requests_[size_ - 1].send_flags |= IBV_SEND_SIGNALED;
  return &requests_[0];
}

}  // namespace nova
