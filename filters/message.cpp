#include "filters/message.h"

#include "proxy/base/crypto/hash.h"

namespace recourse {

std::string NameOfTask(std::string_view backend, std::string_view caller, std::string_view session,
                       std::string_view task) {
  std::string name;
  for (const std::string_view part : {backend, caller, session, task}) AppendPart(name, part);
  return name;
}

std::string ServerKeyOf(const Backend& backend) {
  std::string key;
  for (const std::string* part :
       {&backend.name, &backend.scheme, &backend.authority, &backend.endpoint}) {
    AppendPart(key, *part);
  }
  return key;
}

}  // namespace recourse
