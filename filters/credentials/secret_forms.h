// In which forms a backend may show a credential that it was sent. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

namespace limits {
// What is shorter stands in answers by chance.
inline constexpr std::size_t kScrubbedBytesMin = 8;
}  // namespace limits

// What of a field's value is secret: it as a whole, what follows its scheme ("Bearer x"), the user
// and password of Basic, the values of cookies and parameters. Nothing that is too short.
std::vector<std::string> SecretsIn(std::string_view value);

// The text itself; in UTF-16 and UTF-32; in hexadecimal digits and in base64, wherever it stands in
// what was encoded.
std::vector<std::string> FormsOfSecret(const std::string& secret);

}  // namespace recourse
