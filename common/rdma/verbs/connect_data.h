// ConnectData: the private data of a connection request, and of its acceptance, of the verbs fabric.
// Little-endian. The handshake itself (handshake.h) follows as the first SEND of each side, with the same
// bytes as over tcp.
//
//   offset  size
//        0     4  magic 'NVC1'
//        4     2  xchg index of the dialler: which port of the acceptor takes it
//        6     2  zero
//        8     8  address of a cell of the sender's, remote-read only: the peer's keep-alive READs touch it
//       16     4  rkey of the cell
//
// Thread safety: pure functions.
// Errors: false: malformed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/coding.h"

namespace nova {

struct ConnectData {
  uint16_t xchg_index = 0;
  uint64_t cell_address = 0;
  uint32_t cell_rkey = 0;

  static constexpr uint32_t kMagic = 0x3143564e;
  static constexpr size_t kBytes = 20;  // a request carries 56 at most
};

inline std::string EncodeConnectData(const ConnectData& d) {
  std::string out;
  PutFixed32(&out, ConnectData::kMagic);
  PutFixed16(&out, d.xchg_index);
  PutFixed16(&out, 0);
  PutFixed64(&out, d.cell_address);
  PutFixed32(&out, d.cell_rkey);
  return out;
}

// False: malformed. The transport pads private data, so bytes behind it are not looked at.
inline bool DecodeConnectData(std::string_view bytes, ConnectData* out) {
  if (bytes.size() < ConnectData::kBytes || DecodeFixed32(bytes.data()) != ConnectData::kMagic ||
      DecodeFixed16(bytes.data() + 6) != 0) {
    return false;
  }
  out->xchg_index = DecodeFixed16(bytes.data() + 4);
  out->cell_address = DecodeFixed64(bytes.data() + 8);
  out->cell_rkey = DecodeFixed32(bytes.data() + 16);
  return true;
}

}  // namespace nova
