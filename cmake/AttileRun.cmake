# What is built, run by this machine: by itself, or by an emulator where the build is for another machine.
# ATTILE_PYTHON_LOADS: whether this machine's Python can load the library. Python is not built with the sanitizers' runtimes, nor for another machine.
set(ATTILE_PYTHON_LOADS ON)
if(ATTILE_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(ATTILE_PYTHON_LOADS OFF)
endif()
# Whether an emulator reads the machine code, which takes some 25 times as long; Wine runs it as it is. Long lists of cases are drawn shorter then.
set(ATTILE_TESTS_ARE_EMULATED OFF)
if(CMAKE_CROSSCOMPILING AND NOT WIN32)
  set(ATTILE_TESTS_ARE_EMULATED ON)
endif()
# Or takes several times as long for another reason.
set(ATTILE_TESTS_ARE_SLOW OFF)
if(ATTILE_SANITIZE OR ATTILE_TESTS_ARE_EMULATED)
  set(ATTILE_TESTS_ARE_SLOW ON)
endif()

# attile_runnable(<variable> <target>): a path by which scripts and other programs start the target: its own, or that of a script that has the
# emulator do it. add_test() does so by itself where the command is a target.
function(attile_runnable variable target)
  set(${variable} $<TARGET_FILE:${target}> PARENT_SCOPE)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR "' '" emulator)
    set(script ${PROJECT_BINARY_DIR}/run/${target})
    file(GENERATE OUTPUT ${script} CONTENT "#!/bin/sh\nexec '${emulator}' '$<TARGET_FILE:${target}>' \"$@\"\n"
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    set(${variable} ${script} PARENT_SCOPE)
  endif()
endfunction()
