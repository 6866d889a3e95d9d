// ConnectClient: a client of a ProcessCluster, in a test.
//
// Thread safety: all.   Ownership: the caller's.   Errors: a GoogleTest failure, and null.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_split.h"
#include "client/client.h"

namespace nova {

// `coordinators`: "host:port,host:port". `timeout_ms`: of each operation.
inline std::unique_ptr<Client> ConnectClient(const std::string& coordinators,
                                             int64_t timeout_ms = ClientOptions().timeout_ms) {
  ClientOptions options;
  options.coordinators = absl::StrSplit(coordinators, ',');
  options.timeout_ms = timeout_ms;
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

}  // namespace nova
