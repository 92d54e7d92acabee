cmake_minimum_required(VERSION 3.19)

# A script that unpacks itself: its head, and what is installed as a tar behind it.
execute_process(COMMAND "${CMAKE_COMMAND}" -E tar cf "${OUTPUT}.tar" . WORKING_DIRECTORY "${STAGE}" COMMAND_ERROR_IS_FATAL ANY)
file(READ "${HEAD}" head)
string(REPLACE "@VENDOR@" "${VENDOR}" head "${head}")
file(WRITE "${OUTPUT}.head" "${head}")
execute_process(COMMAND cat "${OUTPUT}.head" "${OUTPUT}.tar" OUTPUT_FILE "${OUTPUT}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${OUTPUT}.head" "${OUTPUT}.tar")
