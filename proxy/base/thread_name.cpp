#include "proxy/base/thread_name.h"

#include <pthread.h>

namespace recourse {

void NameThread(const std::string& name) {
  (void)::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace recourse
