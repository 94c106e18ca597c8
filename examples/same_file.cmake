# Attention of a file by a program in another language: to the bit what the C program writes on the same backend.
execute_process(COMMAND ${PROGRAM} ${INPUT} ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${C_PROGRAM} ${INPUT} ${OUTPUT}.c COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${OUTPUT} ${OUTPUT}.c COMMAND_ERROR_IS_FATAL ANY)
