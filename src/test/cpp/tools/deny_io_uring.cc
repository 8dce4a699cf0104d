// Runs a command under a seccomp filter that answers EPERM to the three io_uring system calls, as
// the default profile of container runtimes does:  deny-io-uring COMMAND [ARGUMENT...]
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: deny-io-uring COMMAND [ARGUMENT...]\n");
    return 2;
  }
  sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 425, 0, 2),  // io_uring_setup
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 427, 1, 0),  // io_uring_register
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(instructions) / sizeof(instructions[0]), instructions};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("deny-io-uring: no filter could be set");
    return 3;
  }
  execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 127;
}
