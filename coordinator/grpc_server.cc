#include "coordinator/grpc_server.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include "coordinator/coordinator.grpc.pb.h"
#include "coordinator/grpc_log.h"
#include "coordinator/leader_channel.h"

namespace nova {
namespace {

constexpr int kMaxThreads = 64;

grpc::Status ToGrpc(const Status& s) {
  std::string leader;
  const bool not_leading = IsNotLeading(s, &leader);
  return grpc::Status(static_cast<grpc::StatusCode>(s.code()), std::string(s.message()),
                      not_leading ? "leader=" + leader : "");
}

class Service final : public proto::Coordinator::Service {
 public:
  explicit Service(GrpcServer::Handler handler) : handler_(std::move(handler)) {}

  grpc::Status Heartbeat(grpc::ServerContext*, const proto::HeartbeatRequest* in,
                         proto::HeartbeatReply* out) override {
    return Answer("Heartbeat", *in, out);
  }
  grpc::Status GetConfiguration(grpc::ServerContext*, const proto::ConfigurationRequest* in,
                                proto::ConfigurationReply* out) override {
    return Answer("GetConfiguration", *in, out);
  }
  grpc::Status CreateRanges(grpc::ServerContext*, const proto::CreateRangesRequest* in,
                            proto::CreateRangesReply* out) override {
    return Answer("CreateRanges", *in, out);
  }
  grpc::Status GetStatus(grpc::ServerContext*, const proto::StatusRequest* in,
                         proto::StatusReply* out) override {
    return Answer("GetStatus", *in, out);
  }
  grpc::Status Drain(grpc::ServerContext*, const proto::DrainRequest* in, proto::DrainReply* out) override {
    return Answer("Drain", *in, out);
  }
  grpc::Status Undrain(grpc::ServerContext*, const proto::UndrainRequest* in,
                       proto::UndrainReply* out) override {
    return Answer("Undrain", *in, out);
  }
  grpc::Status Forget(grpc::ServerContext*, const proto::ForgetRequest* in,
                      proto::ForgetReply* out) override {
    return Answer("Forget", *in, out);
  }
  grpc::Status ForceOpen(grpc::ServerContext*, const proto::ForceOpenRequest* in,
                         proto::ForceOpenReply* out) override {
    return Answer("ForceOpen", *in, out);
  }
  grpc::Status ChangeSetting(grpc::ServerContext*, const proto::ChangeSettingRequest* in,
                             proto::ChangeSettingReply* out) override {
    return Answer("ChangeSetting", *in, out);
  }

 private:
  template <typename In, typename Out>
  grpc::Status Answer(const char* method, const In& in, Out* out) {
    const StatusOr<std::string> answer = handler_(method, in.SerializeAsString());
    if (!answer.ok()) return ToGrpc(answer.status());
    if (!out->ParseFromString(*answer)) return grpc::Status(grpc::StatusCode::INTERNAL, "unreadable answer");
    return grpc::Status::OK;
  }

  const GrpcServer::Handler handler_;
};

}  // namespace

struct GrpcServer::Rep {
  explicit Rep(Handler handler) : service(std::move(handler)) {}
  Service service;
  std::string address;
  std::unique_ptr<grpc::Server> server;
};

GrpcServer::GrpcServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string& address, Handler handler) {
  SilenceGrpcLog();
  auto rep = std::make_unique<Rep>(std::move(handler));
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a taken port is an error, not a second listener
  builder.SetMaxReceiveMessageSize(64 << 20);
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&rep->service);
  rep->server = builder.BuildAndStart();
  if (rep->server == nullptr || port == 0) {
    return absl::UnavailableError(
        StrCat("cannot listen at ", address, ": taken, or not an address of this host"));
  }
  rep->address = StrCat(address.substr(0, address.rfind(':')), ":", port);
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(rep)));
}

GrpcServer::~GrpcServer() {
  rep_->server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(1, GPR_TIMESPAN)));
  rep_->server->Wait();
}

const std::string& GrpcServer::address() const { return rep_->address; }

}  // namespace nova
