#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cpu backend moves no vector of 32 or 64 bytes between memory and a register as if memory were aligned: the stack of Windows is not.
# usage: vectors_test.sh OBJDUMP PLUGIN
set -euo pipefail
counts=$("$1" -d --no-show-raw-insn "$2" | awk '
  /[yz]mm/ && /\(/ && /vmov(aps|apd|dqa|dqa32|dqa64)[ \t]/ { aligned++ }
  /[yz]mm/ && /\(/ && /vmov(ups|upd|dqu|dqu8|dqu16|dqu32|dqu64)[ \t]/ { any++ }
  END { print aligned + 0, any + 0 }')
read -r aligned any <<<"$counts"
echo "$aligned moves that want an aligned address, $any that take any"
[ "$aligned" = 0 ] && [ "$any" -gt 0 ]
