# Writes a header (OUTPUT) with the text of a file (INPUT) as the constant NAME.
cmake_minimum_required(VERSION 3.25)
file(READ ${INPUT} text)
get_filename_component(file_name ${INPUT} NAME)
file(WRITE ${OUTPUT}
"// Made from ${file_name} by scripts/build/cmake/text_header.cmake at build time.
#pragma once

#include <string_view>

namespace allocmark {
inline constexpr std::string_view ${NAME} = R\"text(${text})text\";
}  // namespace allocmark
")
