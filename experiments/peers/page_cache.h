// What the page cache holds of a directory's files, and how to be rid of it.
//
// Thread safety: all.   Errors: one line ends the program.
#pragma once

#include <cstdint>
#include <string>

namespace nova {

bool IsInMemory(const std::string& directory);  // on tmpfs or ramfs: its files are never anywhere else
// Writes back what is dirty, then drops it: of the whole machine where this process may, else of these files.
// How it was done.
std::string DropPageCache(const std::string& directory);
uint64_t CachedBytes(const std::string& directory);  // of its files, in whole pages

}  // namespace nova
