#include "common/rdma/verbs/verbs_device.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "common/rdma/resolver.h"

namespace nova {
namespace {

constexpr int kCapIpcLock = 14;

std::string GidText(const ibv_gid& gid) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char text[INET6_ADDRSTRLEN] = "";
  if (std::memcmp(gid.raw, kMapped, sizeof(kMapped)) == 0) {
    inet_ntop(AF_INET, gid.raw + sizeof(kMapped), text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  }
  return text;
}

std::string SpeedText(const ibv_port_attr& port) {
  double lane = 0;
  switch (port.active_speed) {
    case 1:
      lane = 2.5;
      break;
    case 2:
      lane = 5;
      break;
    case 4:
    case 8:
      lane = 10;
      break;
    case 16:
      lane = 14;
      break;
    case 32:
      lane = 25;
      break;
    case 64:
      lane = 50;
      break;
    case 128:
      lane = 100;
      break;
  }
  const int lanes = port.active_width == 1    ? 1
                    : port.active_width == 2  ? 4
                    : port.active_width == 4  ? 8
                    : port.active_width == 8  ? 12
                    : port.active_width == 16 ? 2
                                              : 0;
  return lane * lanes > 0 ? StrCat(lane * lanes, " Gb/s") : "";
}

// Addresses that lead to RDMA devices here, for whoever named one that does not.
std::string KnownAddresses() {
  std::string out;
  for (const RdmaPort& port : ListRdmaPorts()) {
    for (const RdmaPort::Gid& gid : port.gids) {
      if (gid.text.find(':') == std::string::npos) {
        const std::string one = StrCat(gid.text, " on ", port.device);
        if (out.find(one) == std::string::npos) out += (out.empty() ? "" : ", ") + one;
      }
    }
  }
  return out.empty() ? "" : StrCat("; of an RDMA device are: ", out);
}

// The RoCEv2 entry to use where there is no connection manager to choose: an IPv4 one, where there is one.
int GidOf(ibv_context* context, int port) {
  std::vector<ibv_gid_entry> gids(1024);
  const ssize_t count = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
  int found = 0;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = gids[static_cast<size_t>(i)];
    if (entry.port_num != static_cast<uint32_t>(port) || entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    found = static_cast<int>(entry.gid_index);
    if (GidText(entry.gid).find(':') == std::string::npos) break;
  }
  return found;
}

// "mlx5_0:1" or "mlx5_0" (port 0: any).
Status ParseDevice(const std::string& text, std::string* name, int* port) {
  const size_t colon = text.find(':');
  *name = text.substr(0, colon);
  *port = 0;
  if (colon != std::string::npos &&
      (!absl::SimpleAtoi(text.substr(colon + 1), port) || *port < 1 || *port > 255)) {
    return absl::InvalidArgumentError(StrCat("--rdma_device=", text, " is not NAME or NAME:PORT"));
  }
  return OkStatus();
}

// The device that has the address, as rdma_cm sees it.
Status DeviceOfAddress(const std::string& host, in_addr ip, std::string* name, int* port) {
  rdma_cm_id* cm = nullptr;
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) {
    return absl::UnavailableError(
        StrCat("no RDMA connection manager (", strerror(errno), "): modprobe rdma_ucm"));
  }
  Status status;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr = ip;
  if (rdma_create_id(channel, &cm, nullptr, RDMA_PS_TCP) != 0) {
    status = absl::UnavailableError(StrCat("rdma_create_id: ", strerror(errno)));
  } else if (rdma_bind_addr(cm, reinterpret_cast<sockaddr*>(&at)) != 0) {
    status = absl::UnavailableError(
        StrCat(host, " cannot be bound for RDMA: ", strerror(errno), KnownAddresses()));
  } else if (cm->verbs == nullptr) {
    status = absl::UnavailableError(StrCat(host, " is not the address of an RDMA device", KnownAddresses()));
  } else {
    *name = ibv_get_device_name(cm->verbs->device);
    *port = cm->port_num;
  }
  if (cm != nullptr) rdma_destroy_id(cm);
  rdma_destroy_event_channel(channel);
  return status;
}

Status PairError(const char* state) {
  return absl::UnavailableError(
      StrCat("connecting two queue pairs of this device (", state, "): ", strerror(errno)));
}

}  // namespace

StatusOr<QueuePairAddress> AddressOfQueuePair(const VerbsDevice& device, const ibv_qp* qp) {
  QueuePairAddress out;
  out.number = qp->qp_num;
  out.lid = device.attributes.lid;
  out.mtu = device.attributes.active_mtu;
  if (device.attributes.link_layer == IBV_LINK_LAYER_ETHERNET &&
      ibv_query_gid(device.context, device.port, device.gid_index, &out.gid) != 0) {
    return PairError("ibv_query_gid");
  }
  return out;
}

Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const ibv_qp* to) {
  NOVA_ASSIGN_OR_RETURN(const QueuePairAddress address, AddressOfQueuePair(device, to));
  return ConnectQueuePair(device, qp, address);
}

Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const QueuePairAddress& to) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device.port;
  a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    return PairError("INIT");
  a = {};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = std::min(device.attributes.active_mtu, to.mtu);
  a.dest_qp_num = to.number;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 12;
  a.ah_attr.port_num = device.port;
  a.ah_attr.dlid = to.lid;
  if (device.attributes.link_layer == IBV_LINK_LAYER_ETHERNET) {
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.grh.sgid_index = static_cast<uint8_t>(device.gid_index);
    a.ah_attr.grh.dgid = to.gid;
  }
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    return PairError("RTR");
  }
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    return PairError("RTS");
  }
  return OkStatus();
}

Status NoResources(const char* what) {
  return absl::ResourceExhaustedError(StrCat(what, ": ", strerror(errno)));
}

const char* VerbsStateText(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "init: no subnet manager yet";
    case IBV_PORT_ARMED:
      return "armed";
    default:
      return "unknown";
  }
}

StatusOr<VerbsDevice> OpenVerbsDevice(const VerbsFabricOptions& options) {
  in_addr ip{};
  if (!options.address.empty()) {
    NOVA_ASSIGN_OR_RETURN(ip, LookUpHost(options.address));
  }
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) {
    if (list != nullptr) ibv_free_device_list(list);
    return absl::UnavailableError(
        "no RDMA device: load its driver (ibv_devices lists what is there), or give --fabric=tcp");
  }
  std::string wanted;
  int wanted_port = 0;
  Status status = options.device.empty() ? OkStatus() : ParseDevice(options.device, &wanted, &wanted_port);
  if (status.ok() && ip.s_addr != 0) {
    std::string name;
    int port = 0;
    status = DeviceOfAddress(options.address, ip, &name, &port);
    if (status.ok() && ((!wanted.empty() && wanted != name) || (wanted_port != 0 && wanted_port != port))) {
      status = absl::InvalidArgumentError(StrCat(options.address, " is the address of ", name, ":", port,
                                                 ", not of --rdma_device=", options.device));
    }
    wanted = name;
    wanted_port = port;
  }
  VerbsDevice out;
  std::string seen;
  for (int i = 0; i < count && status.ok() && out.context == nullptr; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    if (!wanted.empty() && wanted != name) continue;
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) {
      seen += StrCat(seen.empty() ? "" : ", ", name, " (cannot be opened: ", strerror(errno), ")");
      continue;
    }
    ibv_device_attr limits{};
    ibv_query_device(context, &limits);
    for (int port = 1; port <= limits.phys_port_cnt && out.context == nullptr; ++port) {
      ibv_port_attr attributes{};
      if ((wanted_port != 0 && wanted_port != port) ||
          ibv_query_port(context, static_cast<uint8_t>(port), &attributes) != 0)
        continue;
      if (attributes.state == IBV_PORT_ACTIVE) {
        out = {context, static_cast<uint8_t>(port), GidOf(context, port), attributes};
      } else {
        seen +=
            StrCat(seen.empty() ? "" : ", ", name, ":", port, " (", VerbsStateText(attributes.state), ")");
      }
    }
    if (out.context == nullptr) ibv_close_device(context);
  }
  ibv_free_device_list(list);
  NOVA_RETURN_IF_ERROR(status);
  if (out.context != nullptr) return out;
  if (seen.empty())
    return absl::UnavailableError(
        StrCat("no RDMA device ", options.device, ": ibv_devices lists what is there"));
  return absl::UnavailableError(
      StrCat("no RDMA port is up: ", seen, ": bring its link up (ip link set DEV up; ibstat)"));
}

std::vector<RdmaPort> ListRdmaPorts() {
  std::vector<RdmaPort> out;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) continue;
    ibv_device_attr limits{};
    ibv_query_device(context, &limits);
    std::vector<ibv_gid_entry> gids(1024);
    const ssize_t gid_count = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
    for (int number = 1; number <= limits.phys_port_cnt; ++number) {
      ibv_port_attr attributes{};
      if (ibv_query_port(context, static_cast<uint8_t>(number), &attributes) != 0) continue;
      RdmaPort port;
      port.device = ibv_get_device_name(list[i]);
      port.port = number;
      port.active = attributes.state == IBV_PORT_ACTIVE;
      port.state = VerbsStateText(attributes.state);
      port.link = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
      port.active_mtu = VerbsMtuBytes(attributes.active_mtu);
      port.max_mtu = VerbsMtuBytes(attributes.max_mtu);
      port.speed = SpeedText(attributes);
      port.max_regions = static_cast<uint64_t>(limits.max_mr);
      port.max_queue_pairs = static_cast<uint64_t>(limits.max_qp);
      for (ssize_t g = 0; g < gid_count; ++g) {
        const ibv_gid_entry& entry = gids[static_cast<size_t>(g)];
        if (entry.port_num != static_cast<uint32_t>(number)) continue;
        char netdev[IF_NAMESIZE] = "";
        if (entry.ndev_ifindex != 0) if_indextoname(entry.ndev_ifindex, netdev);
        port.gids.push_back({static_cast<int>(entry.gid_index), GidText(entry.gid),
                             entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? "RoCEv2"
                             : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCEv1"
                                                                      : "InfiniBand",
                             netdev});
      }
      out.push_back(std::move(port));
    }
    ibv_close_device(context);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return out;
}

std::string MemlockProblem(uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes)
    return "";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    uint64_t capabilities = 0;
    if (line.starts_with("CapEff:") && absl::SimpleHexAtoi(line.substr(line.find('\t') + 1), &capabilities) &&
        (capabilities >> kCapIpcLock & 1) != 0) {
      return "";
    }
  }
  return StrCat("this process may lock ", limit.rlim_cur / 1024, " KiB of memory and is to register ",
                bytes / 1024,
                " KiB: LimitMEMLOCK=infinity in its unit, or \"* - memlock unlimited\" in "
                "/etc/security/limits.d/nova.conf");
}

}  // namespace nova
