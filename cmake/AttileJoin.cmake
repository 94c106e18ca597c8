# For builds that are made once, tested and thrown away: most of what a compiler does for a short source is to read what it includes.
# ATTILE_JOIN_SOURCES has it take sources of the core several at a time. That a source lacks an include is not seen there; the other builds compile
# each by itself.
option(ATTILE_JOIN_SOURCES "Sources of the core are compiled several at a time: for builds that are thrown away" OFF)

# A name in one source hides none in another. After attile_compiler, whose warnings it takes back.
add_library(attile_joined INTERFACE)
target_compile_options(attile_joined INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)

# attile_join_sources(<target>): of sources none of which defines a name that another defines in the same namespace, be it an unnamed one.
function(attile_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  target_link_libraries(${target} PRIVATE attile_joined)
endfunction()
