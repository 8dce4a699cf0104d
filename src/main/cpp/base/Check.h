#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace spillway {

[[noreturn]] inline void checkFailed(const char* file, int line, const char* condition,
                                     const char* format, ...) {
  std::fprintf(stderr, "spillway: impossible state at %s:%d: %s: ", file, line, condition);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace spillway

// For what cannot happen unless the engine itself is wrong. The message carries the numbers.
#define CHECK(condition, ...)                                               \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::spillway::checkFailed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    }                                                                       \
  } while (false)
