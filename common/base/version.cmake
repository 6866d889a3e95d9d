# Writes OUTPUT, the source of VersionText, from VERSION and the commit of SOURCE_DIR; does not touch it when nothing changed.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --exclude=* --abbrev=12 --dirty
                OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE CODE)
if(CODE EQUAL 0)
  string(APPEND VERSION " (commit ${COMMIT})")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "common/base/version.h"

namespace nova {

const char* VersionText() { return "@VERSION@"; }

}  // namespace nova
]])
