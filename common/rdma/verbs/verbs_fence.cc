#include "common/rdma/verbs/verbs_fence.h"

#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/rdma/resolver.h"
#include "common/rdma/verbs/verbs_fence_ends.h"
#include "common/rdma/verbs/verbs_fence_peer.h"

namespace nova {
namespace {

struct WayText {
  const char* name;
  const char* what;
};

constexpr WayText kTexts[kFenceWays] = {
    {"T1", "nothing: the slab was reassigned inside one registration"},
    {"T2", "ibv_dereg_mr"},
    {"T2b", "ibv_dereg_mr, the same memory registered again"},
    {"T3", "the target's queue pair moved to ERR"},
    {"T4", "REMOTE_WRITE dropped from the queue pair's access flags"},
    {"T5", "ibv_rereg_mr, CHANGE_ACCESS"},
    {"T6b", "memory window of type 2, LOCAL_INV"},
};

class OpenDevice {
 public:
  ~OpenDevice() {
    if (device.context != nullptr) ibv_close_device(device.context);
  }
  Status Open(const FenceOptions& o) {
    VerbsFabricOptions options;
    options.device = o.device;
    options.address = o.address;
    NOVA_ASSIGN_OR_RETURN(device, OpenVerbsDevice(options));
    return OkStatus();
  }
  VerbsDevice device;
};

StatusOr<FenceResult> RunOne(const VerbsDevice& device, FenceWay way, FenceTarget* target) {
  FenceResult result;
  result.name = kTexts[static_cast<int>(way)].name;
  result.what = kTexts[static_cast<int>(way)].what;
  FenceWriter writer;
  NOVA_RETURN_IF_ERROR(writer.Open(device));
  NOVA_ASSIGN_OR_RETURN(const QueuePairAddress here, AddressOfQueuePair(device, writer.queue_pair()));
  NOVA_ASSIGN_OR_RETURN(const FenceTargetAddress there, target->Open(way, here));
  NOVA_RETURN_IF_ERROR(writer.Connect(device, there.queue_pair));
  NOVA_ASSIGN_OR_RETURN(const std::optional<uint32_t> key, target->Prepare());
  if (!key) {
    result.outcome = "not supported";
    return result;
  }
  NOVA_RETURN_IF_ERROR(target->Clear());
  if (const auto live = writer.Write(there.memory, *key); live != IBV_WC_SUCCESS) {
    return absl::UnavailableError(StrCat(result.name, ": the WRITE before, of ", kFenceBytes,
                                         " bytes at MTU ",
                                         VerbsMtuBytes(std::min(here.mtu, there.queue_pair.mtu)),
                                         ", failed: ", live ? ibv_wc_status_str(*live) : "no completion"));
  }
  NOVA_ASSIGN_OR_RETURN(const FenceTaken taken, target->Take());
  result.micros = taken.micros;
  if (!taken.supported) {
    result.outcome = StrCat("not supported: ", taken.why);
    return result;
  }
  NOVA_RETURN_IF_ERROR(target->Clear());
  const auto stale = writer.Write(there.memory, *key);
  NOVA_ASSIGN_OR_RETURN(const bool intact, target->Intact());
  result.fences = intact && stale != IBV_WC_SUCCESS ? Fences::kYes : Fences::kNo;
  result.outcome = stale == IBV_WC_SUCCESS ? "landed"
                   : !stale                ? "no completion in 2 s"
                                           : StrCat("refused: ", ibv_wc_status_str(*stale));
  if (!intact && stale != IBV_WC_SUCCESS) result.outcome += ", and landed";
  return result;
}

StatusOr<std::vector<FenceResult>> RunAll(const VerbsDevice& device, FenceTarget* target) {
  std::vector<FenceResult> out;
  for (int way = 0; way < kFenceWays; ++way) {
    NOVA_ASSIGN_OR_RETURN(FenceResult result, RunOne(device, static_cast<FenceWay>(way), target));
    out.push_back(std::move(result));
  }
  return out;
}

StatusOr<int> Listen(const FenceOptions& options, uint16_t port) {
  NOVA_ASSIGN_OR_RETURN(const sockaddr_in at, ListenAddress(StrCat(options.address, ":", port)));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 || listen(fd, 1) != 0) {
    const Status status =
        absl::UnavailableError(StrCat("cannot serve at ", options.address, ":", port, ": ", strerror(errno)));
    close(fd);
    return status;
  }
  return fd;
}

}  // namespace

StatusOr<std::vector<FenceResult>> RunFenceTests(const std::string& address) {
  OpenDevice open;
  NOVA_RETURN_IF_ERROR(open.Open({"", address}));
  LocalFenceTarget target(open.device);
  return RunAll(open.device, &target);
}

StatusOr<FenceReport> RunFenceTestsAgainst(const std::string& target, const FenceOptions& options) {
  OpenDevice open;
  NOVA_RETURN_IF_ERROR(open.Open(options));
  FenceReport report;
  report.mtu_here = VerbsMtuBytes(open.device.attributes.active_mtu);
  NOVA_ASSIGN_OR_RETURN(const auto remote, RemoteFenceTarget::Connect(target, report.mtu_here));
  report.mtu_there = remote->mtu();
  NOVA_ASSIGN_OR_RETURN(report.results, RunAll(open.device, remote.get()));
  return report;
}

Status ServeFenceTests(const FenceOptions& options, uint16_t port, Nanos patience,
                       const std::function<void(const std::string&)>& listening) {
  OpenDevice open;
  NOVA_RETURN_IF_ERROR(open.Open(options));
  NOVA_ASSIGN_OR_RETURN(const int listener, Listen(options, port));
  listening(StrCat(ibv_get_device_name(open.device.context->device), ":", open.device.port));
  const Status status = AnswerFencePeer(listener, open.device, patience);
  close(listener);
  return status;
}

}  // namespace nova
