# What the site's pages have and a forge would show as text: a heading's anchor and the table of contents. They are comments in the sources, and so is HTML that is
# for the site alone. What is for a forge alone ends in <!-- forge -->.
s/^(#+ .*[^ ]) +<!-- ([A-Za-z0-9_-]+) -->$/\1 {#\2}/
s/^<!-- contents -->$/[TOC]/
s/^( *)<!-- site: (.*) -->$/\1\\htmlonly \2 \\endhtmlonly/
/ <!-- forge -->$/d
s/^- .* <!-- subpage ([A-Za-z0-9_-]+) -->$/- \\subpage \1/
