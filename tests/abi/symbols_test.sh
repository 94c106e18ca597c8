#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the linked files say about themselves.
#   symbols_test.sh exports NM LIBRARY LIST      a library defines exactly the listed symbols (of version ATTILE_1, if it has versions)
#   symbols_test.sh needs READELF LIBRARY        it needs no library but the C runtime's
#   symbols_test.sh objects NM OBJECT...         objects refer to nothing that ends the process, prints, or runs at start or exit
set -euo pipefail
what=$1 tool=$2
shift 2

case $what in
exports)
    found=$("$tool" -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sort)
    [ "$found" = "$(sed 's/$/@@ATTILE_1/' "$2" | sort)" ] || [ "$found" = "$(sort "$2")" ] || {
        echo "exported, but not listed (<) or listed, but not exported (>):"
        diff <(sed 's/@@ATTILE_1$//' <<<"$found") <(sort "$2") || true
        echo "symbols without the version ATTILE_1:" && grep -v '@@ATTILE_1$' <<<"$found" || true
        exit 1
    }
    ;;
needs)
    strangers=$("$tool" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|ld-linux-[a-z0-9_-]+)\.so\.[0-9]+$' || true)
    [ -z "$strangers" ] || { echo "needs: $strangers"; exit 1; }
    "$tool" -d "$1" | grep -q NODELETE || { echo "lacks -z nodelete"; exit 1; }
    "$tool" -d "$1" | grep -q BIND_NOW || { echo "lacks -z now"; exit 1; }
    "$tool" -lW "$1" | grep -q 'GNU_STACK.*RWE' && { echo "has an executable stack"; exit 1; }
    exit 0
    ;;
objects)
    banned='abort|exit|_exit|_Exit|quick_exit|raise|kill|__assert_fail|(__)?(v|f|vf)?printf(_chk)?|f?puts|f?putc|putchar|fwrite|perror'
    banned+='|std(out|err)|_ZSt4(cout|cerr|clog)|signal|sigaction|pthread_atfork|atexit|at_quick_exit|__cxa_atexit|__cxa_thread_atexit'
    banned+='|setenv|putenv|setlocale|chdir|srand|rand|strtok|feraiseexcept|fesetround|fesetenv'
    # A forked child must find the core's locks free; and a locale that a backend changed is put back.
    allowed='/process\.cpp\.o: +U pthread_atfork$|/surroundings\.cpp\.o: +U setlocale$'
    found=$("$tool" -A -u "$@" | grep -E " ($banned)\$" | grep -vE "$allowed" || true)
    static=$("$tool" -A "$@" | grep -E '_GLOBAL__sub_I' || true)  # code that runs when the library is loaded
    [ -z "$found$static" ] || { printf '%s\n' "$found" "$static"; exit 1; }
    ;;
esac
