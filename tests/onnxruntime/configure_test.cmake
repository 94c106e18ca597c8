# Headers that bindings/onnxruntime must refuse, made here, and what it says of them.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/headers)
set(expected "expected the folder with ONNX Runtime's onnxruntime_c_api.h")
if(CASE STREQUAL "old")
  file(WRITE ${WORK}/headers/onnxruntime_c_api.h "#define ORT_API_VERSION 22\n")
  set(expected "headers have API version 22. expected 23 .ONNX Runtime 1.23. or later")
endif()
file(WRITE ${WORK}/project/CMakeLists.txt
  "cmake_minimum_required(VERSION 3.25)\nproject(refusal LANGUAGES NONE)\nadd_subdirectory(${SOURCE}/bindings/onnxruntime onnxruntime)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/project -B ${WORK}/build -DATTILE_ONNXRUNTIME_INCLUDE=${WORK}/headers
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(status EQUAL 0 OR NOT output MATCHES "ATTILE_ONNXRUNTIME_INCLUDE is ${WORK}/headers, .*${expected}")
  message(FATAL_ERROR "configuring ended with ${status}, expected it to say '${expected}': ${output}")
endif()
