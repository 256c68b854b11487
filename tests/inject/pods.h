// What tests of the injector share.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "proxy/inject/pod_template.h"
#include "tests/inject/template_text.h"

namespace recourse {

inline PodTemplate SmallTemplate() {
  auto read = ReadPodTemplate(kTemplateText);
  EXPECT_TRUE(read) << read.error();
  return read ? *read : PodTemplate();
}

inline Json ParsedJson(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json ? *json : Json();
}

}  // namespace recourse
