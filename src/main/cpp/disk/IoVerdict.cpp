#include <cerrno>

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

}  // namespace spillway
