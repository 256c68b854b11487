// Approvals as JSON for the admin API. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// One line of the list; `summary` tells it apart from others, here and below. Of one whose key is
// missing (is_locked) it says so, and what is in clear.
// `pods`: who asks, or decided last.
void AppendApprovalLine(std::string& out, const Event& event, std::string_view summary,
                        PodNames& pods);

// Everything that whoever decides has to see, of a call that is not locked. `request` is the one
// that waits, or that was decided; null: it is no longer kept. Values of header fields that carry
// credentials are not shown; nothing else is left out or cut. `credentials`: fields that the
// policy's own values replace when it is sent. `earlier`: what else its caller did lately.
std::string ApprovalJson(const Event& event, std::string_view summary,
                         const RenderedRequest* request, const std::string* original_body,
                         const std::vector<std::string>& credentials,
                         const std::vector<Event>& earlier, PodNames& pods);
std::vector<JsonShape> ApprovalShapes();

}  // namespace recourse
