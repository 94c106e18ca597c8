#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the build hardens (cmake/AttileHardening.cmake), read from the files that came out.
#   hardening_test.sh linked READELF FLAGS FILE...      libraries, plugins and programs: tables read-only and bound at once, no executable
#                                                       stack, no relocation of code, programs loaded anywhere; canaries
#   hardening_test.sh objects READELF FLAGS OBJECT...   objects before they are linked: every indirect jump's target is marked
#   hardening_test.sh commands PYTHON FLAGS JSON SOURCE...   every file of these folders is compiled with the flags, and fortified
# FLAGS are those that the compiler has, with commas.
set -euo pipefail
what=$1 tool=$2 flags=$3
shift 3
failed=0
breach() { echo "$*"; failed=1; }
has() { case ",$flags," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }

case $what in
linked)
    for file in "$@"; do
        segments=$("$tool" -lW "$file") dynamic=$("$tool" -dW "$file") symbols=$("$tool" --dyn-syms -W "$file") head=$("$tool" -hW "$file")
        grep -q GNU_RELRO <<<"$segments" || breach "$file: no segment that becomes read-only (-z relro)"
        grep -Eq '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' <<<"$dynamic" || breach "$file: is bound as it goes (lacks -z now)"
        grep -q 'GNU_STACK.*RWE' <<<"$segments" && breach "$file: has an executable stack"
        grep -q TEXTREL <<<"$dynamic" && breach "$file: its code is written to when it is loaded"
        if grep -q INTERP <<<"$segments"; then
            grep -q 'DYN' <<<"$head" || breach "$file: is always loaded at one place (no -pie)"
        fi
        if has -fstack-protector-strong; then
            grep -q __stack_chk_fail <<<"$symbols" || breach "$file: no function has a canary (-fstack-protector-strong)"
        fi
    done
    ;;
objects)
    has -fcf-protection=full || exit 0
    for file in "$@"; do
        case $file in *.o) ;; *) continue ;; esac
        notes=$("$tool" -nW "$file" 2>/dev/null)
        grep -q 'IBT, SHSTK' <<<"$notes" || breach "$file: targets of jumps are not marked (-fcf-protection)"
    done
    ;;
commands)
    "$tool" - "$flags" "$@" <<'END' || failed=1
import json, os, sys
flags, commands, folders = [f for f in sys.argv[1].split(",") if f], sys.argv[2], sys.argv[3:]
bad = seen = 0
for entry in json.load(open(commands, encoding="utf-8")):
    path = os.path.realpath(entry["file"])
    if not path.endswith((".c", ".cpp")) or not any(path.startswith(os.path.realpath(f) + "/") for f in folders):
        continue
    if "/tests/" in entry["output"] if "output" in entry else " -o tests/" in entry["command"]:
        continue  # The same file in a test of its own.
    seen += 1
    words = entry["command"].split()
    missing = [f for f in flags if f not in words and (f != "_FORTIFY_SOURCE" or not any(w.startswith("-D_FORTIFY_SOURCE=") for w in words))]
    if missing:
        bad += 1
        print(f"{path}: compiled without {' '.join(missing)}")
if not seen:
    print("no file of", *folders)
sys.exit(1 if bad or not seen else 0)
END
    ;;
esac
exit $failed
