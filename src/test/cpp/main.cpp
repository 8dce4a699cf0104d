#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

// Everything that the tests put on disk lies in one folder: the processes of death tests, which
// clean nothing up, find its name in their environment.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Death tests fork while lanes of other tests may run; this style starts the program anew.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string root = "/var/tmp/spillway-test-XXXXXX";
  const bool outermost = std::getenv("SPILLWAY_TEST_ROOT") == nullptr;
  if (outermost && mkdtemp(root.data()) != nullptr) setenv("SPILLWAY_TEST_ROOT", root.c_str(), 1);
  const int result = RUN_ALL_TESTS();
  if (outermost) std::filesystem::remove_all(root);
  return result;
}
