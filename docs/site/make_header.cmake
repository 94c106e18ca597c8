# The theme's scripts belong into the header of every page. Doxygen's own header differs from version to version, so it is asked for its own.
if(NOT HEADER)
  return()
endif()
execute_process(COMMAND ${DOXYGEN} -w html ${HEADER} ${HEADER}.footer ${HEADER}.css OUTPUT_QUIET ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(READ ${HEADER} text)
set(scripts "<script type=\"text/javascript\" src=\"$relpath^attile.js\"></script>\n")
foreach(part darkmode-toggle fragment-copy-button paragraph-link)
  string(APPEND scripts "<script type=\"text/javascript\" src=\"$relpath^doxygen-awesome-${part}.js\"></script>\n")
endforeach()
string(APPEND scripts "<script type=\"text/javascript\">
DoxygenAwesomeDarkModeToggle.init();
DoxygenAwesomeFragmentCopyButton.init();
DoxygenAwesomeParagraphLink.init();
</script>\n</head>")
string(REPLACE "</head>" "${scripts}" text "${text}")
file(WRITE ${HEADER} "${text}")
