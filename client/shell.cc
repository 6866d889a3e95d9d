#include "client/shell.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace nova {
namespace {

// Words of a line; "double quotes" hold blanks together, \" and \\ stand for themselves.
std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, open = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      open = true;
    } else if (c == '"') {
      quoted = !quoted;
      open = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) && !quoted) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

int RunLine(Session* session, const std::vector<std::string>& words) {
  CLI::App app("commands of the shell; `help`, COMMAND --help, `quit`");
  app.require_subcommand(0, 1);
  Command chosen;
  AddCommands(&app, &chosen);
  if (words[0] == "help") {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  if (const std::optional<int> code = ParseWords(&app, words)) return *code;
  return chosen ? chosen(session) : 0;
}

// The next line, of a terminal or of a file; none at its end.
std::optional<std::string> ReadLine(const Session& session, bool terminal) {
  std::string line;
  if (!terminal) return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
  char* const typed = readline(session.snapshot == nullptr ? "nova> " : "nova (snapshot)> ");
  if (typed == nullptr) return std::nullopt;
  line = typed;
  if (!line.empty()) add_history(typed);
  std::free(typed);
  return line;
}

}  // namespace

int RunShell(Session* session) {
  session->interactive = true;
  const bool terminal = isatty(STDIN_FILENO) != 0;
  int last = 0;
  while (const std::optional<std::string> line = ReadLine(*session, terminal)) {
    const std::vector<std::string> words = SplitWords(*line);
    if (words.empty()) continue;
    if (words[0] == "quit" || words[0] == "exit") break;
    last = RunLine(session, words);
    if (std::fflush(stdout) != 0) break;  // nobody sees what further commands say
  }
  return terminal ? 0 : last;
}

}  // namespace nova
