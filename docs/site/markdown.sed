# What the site's pages have and a forge would show as text: a heading's anchor and the table of contents. They are comments in the sources, and so is HTML that is
# for the site alone. What is for a forge alone ends in <!-- forge -->.
s/^(#+ .*[^ ]) +<!-- ([A-Za-z0-9_-]+) -->$/\1 {#\2}/
s/^<!-- contents -->$/[TOC]/
s/^( *)<!-- site: (.*) -->$/\1\\htmlonly \2 \\endhtmlonly/
/ <!-- forge -->$/d
s/^- .* <!-- subpage ([A-Za-z0-9_-]+) -->$/- \\subpage \1/
# A page is called as its file is: a link by the file's path would not work where that has spaces.
s/\]\(([A-Za-z0-9_.-]+\/)*CHANGELOG\.md\)/](@ref changes)/g
s/\]\(([A-Za-z0-9_.-]+\/)*CONTRIBUTING\.md\)/](@ref contributing)/g
s/\]\(([A-Za-z0-9_.-]+\/)*([a-z0-9-]+)\.md\)/](@ref \2)/g
# Doxygen shows backticks in the words of a link to an anchor of the same page.
s/\[`([^]`]+)`\]\(#/[\1](#/g
