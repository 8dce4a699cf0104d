#include <cerrno>
#include <cstring>

#include "disk/Ring.h"

namespace spillway {

IoVerdict verdictOf(int32_t result) {
  if (result >= 0) return IoVerdict::kMoved;
  switch (-result) {
    case EINTR:
    case EAGAIN:
    case ENOMEM:
    case EBUSY:
      return IoVerdict::kRetry;
    default:
      return IoVerdict::kFailed;
  }
}

bool blamesMedium(int32_t error) {
  switch (error) {
    case EIO:
    case EBADMSG:
    case EILSEQ:
    case ENODATA:
    case EREMOTEIO:
      return true;
    default:
      return false;
  }
}

bool blamesCapacity(int32_t error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EROFS:
      return true;
    default:
      return false;
  }
}

bool blamesConfiguration(int32_t error) {
  switch (error) {
    case EINVAL:
    case EBADF:
    case EOPNOTSUPP:
      return true;
    default:
      return false;
  }
}

std::string errorName(int32_t error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : "errno " + std::to_string(error);
}

}  // namespace spillway
