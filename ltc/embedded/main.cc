// nova_db: the user's tool for embedded databases (Db). Each command makes one directory of what another
// holds, which stays as it is.
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "common/base/flags.h"
#include "ltc/embedded/db.h"

namespace nova {
namespace {

int Main(int argc, char** argv) {
  ParseFlags(
      "COMMAND FROM TO\n"
      "  checkpoint FROM TO   makes the database TO of the database FROM, which no process has open\n"
      "  restore FROM TO      makes the database TO of the checkpoint FROM\n"
      "What is made must not be there; it is there as a whole or not at all, and shares files with FROM by\n"
      "hard links.\n",
      &argc, &argv);
  const std::string command = argc > 1 ? argv[1] : "";
  if (argc != 4 || (command != "checkpoint" && command != "restore")) {
    ExitWithError("nova_db checkpoint FROM TO, or nova_db restore FROM TO");
  }
  DbOptions options;
  options.create_if_missing = false;
  options.warm_tables = false;  // it ends soon
  const auto db = Db::Open(argv[2], options);
  const Status made = db.ok() ? (*db)->Checkpoint(argv[3]) : db.status();
  if (made.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", command.c_str(), std::string(made.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
