#include "coordinator/grpc_channel.h"

#include <fcntl.h>
#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "coordinator/grpc_log.h"
#include "coordinator/leader_channel.h"

namespace nova {
namespace {

constexpr char kService[] = "/nova.proto.Coordinator/";

// A connection that is made between two calls has nobody to poll it but gRPC's backup poller, every 5 s if
// not told otherwise: so long a coordinator that is back would go unnoticed. gRPC reads the interval once,
// from the environment, as it starts; it is set before main, while no other thread can read the environment.
// What a person has set stays.
[[maybe_unused]] const bool g_backup_poller_told =
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "50", /*overwrite=*/0) == 0;

// LeaderChannel has its own back-off, and this one is for its sake: the least gRPC allows, and hardly more. A
// process that stands still accepts connections and says nothing on them: an attempt has time to outlast
// that.
constexpr int kLeastBackoffMs = 100;
constexpr int kMostBackoffMs = 200;
constexpr int kConnectMs = 1000;

Status ToStatus(const grpc::Status& s) {
  if (s.error_code() == grpc::StatusCode::FAILED_PRECONDITION && s.error_details().starts_with("leader=")) {
    return NotLeadingError(s.error_details().substr(std::string("leader=").size()), s.error_message());
  }
  return Status(static_cast<absl::StatusCode>(s.error_code()), s.error_message());
}

// gRPC ends the process when it gets no descriptor for a completion queue. So a call begins only where there
// are as many as one takes, sockets and all; and a few more, for other threads take some meanwhile.
Status CheckDescriptors() {
  std::array<int, 16> taken;
  size_t n = 0;
  while (n < taken.size() && (taken[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) ++n;
  const int error = errno;
  for (size_t i = 0; i < n; ++i) close(taken[i]);
  if (n == taken.size()) return OkStatus();
  return absl::ResourceExhaustedError(StrCat("a call to the coordinator needs ", taken.size(),
                                             " descriptors, ", n, " are free: ", strerror(error)));
}

class GrpcChannel : public LeaderChannel {
 public:
  explicit GrpcChannel(std::vector<std::string> addresses) : LeaderChannel(std::move(addresses)) {
    SilenceGrpcLog();
  }

 private:
  StatusOr<std::string> Attempt(const std::string& address, const std::string& method,
                                const std::string& request, Nanos deadline_ns) override;

  std::shared_ptr<grpc::GenericStub> StubFor(const std::string& address);

  Mutex mu_;
  std::map<std::string, std::shared_ptr<grpc::GenericStub>> stubs_ ABSL_GUARDED_BY(mu_);
};

std::shared_ptr<grpc::GenericStub> GrpcChannel::StubFor(const std::string& address) {
  constexpr size_t kMaxStubs = 64;
  MutexLock lock(&mu_);
  const auto it = stubs_.find(address);
  if (it != stubs_.end()) return it->second;
  if (stubs_.size() >= kMaxStubs) stubs_.clear();
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kLeastBackoffMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostBackoffMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);  // of an attempt, whatever its name
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxReceiveMessageSize(64 << 20);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
  return stubs_[address] = std::make_shared<grpc::GenericStub>(channel);
}

StatusOr<std::string> GrpcChannel::Attempt(const std::string& address, const std::string& method,
                                           const std::string& request, Nanos deadline_ns) {
  NOVA_RETURN_IF_ERROR(CheckDescriptors());
  const std::shared_ptr<grpc::GenericStub> stub = StubFor(address);
  grpc::ClientContext context;
  const Nanos left_ns = std::max<Nanos>(deadline_ns - Now(), kMillisecond);
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns, GPR_TIMESPAN)));
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::CompletionQueue queue;
  const auto call = stub->PrepareUnaryCall(&context, kService + method, bytes, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  // The call ends by its own deadline at the latest, so this wait is bounded.
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  if (!status.ok()) return ToStatus(status);
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok()) return absl::InternalError("unreadable answer");
  std::string out;
  for (const grpc::Slice& s : slices) out.append(reinterpret_cast<const char*>(s.begin()), s.size());
  return out;
}

}  // namespace

std::unique_ptr<ControlChannel> OpenGrpcChannel(std::vector<std::string> addresses) {
  return std::make_unique<GrpcChannel>(std::move(addresses));
}

}  // namespace nova
