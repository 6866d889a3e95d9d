// HandleBody: registers a handler that is given requests decoded (common/base/fields.h).
//
// Thread safety: call before the xchg starts; the handler runs on the xchg's thread.
// Ownership: the counter and the histogram outlive the xchg.
// Errors: a body that does not decode ends its connection, and is counted.
#pragma once

#include <utility>

#include "common/base/fields.h"
#include "common/base/metrics.h"
#include "common/rdma/xchg.h"

namespace nova {

// `handler(call, request)` serves requests of `type`; `request` views `call`. `served_ns` as in Xchg::Handle.
template <typename Request, typename Type, typename Handler>
void HandleBody(Xchg* xchg, Type type, Counter* malformed, Handler handler, Histogram* served_ns = nullptr) {
  xchg->Handle(
      static_cast<uint16_t>(type),
      [xchg, malformed, handler = std::move(handler)](const IncomingCall& call) {
        Request request;
        if (ParseBody(call.body, &request)) return handler(call, request);
        malformed->Add();
        xchg->Close(call.connection);
      },
      served_ns);
}

}  // namespace nova
