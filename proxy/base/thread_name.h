// What `top -H` and `ps -T` show of a thread.
#pragma once

#include <string>

namespace recourse {

// Names the calling thread. The kernel keeps 15 bytes of it.
void NameThread(const std::string& name);

}  // namespace recourse
