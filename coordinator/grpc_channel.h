// OpenGrpcChannel: the ControlChannel over gRPC.
//
// `addresses` are the coordinators', "host:port"; any of them may lead. Opens no connection before the first
// call.
//
// Thread safety: as ControlChannel.   Errors: as LeaderChannel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator_client.h"

namespace nova {

std::unique_ptr<ControlChannel> OpenGrpcChannel(std::vector<std::string> addresses);

}  // namespace nova
