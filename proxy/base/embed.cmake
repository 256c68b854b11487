# Writes files into one C++ file, as what a function of a header gives, each a {name, bytes}:
# cmake -DFILES=... -DOUTPUT=... -DHEADER=path.h -DTYPE=Struct -DFUNCTION=Name -P embed.cmake
set(arrays "")
set(entries "")
set(number 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", {reinterpret_cast<const char*>(kFile${number}), "
    "sizeof kFile${number} - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace recourse {
namespace {
${arrays}
}  // namespace

std::span<const ${TYPE}> ${FUNCTION}() {
  static const ${TYPE} kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace recourse
")
