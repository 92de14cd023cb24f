#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks that every file of ours that can hold a comment names its licence within its first five lines, that it is the
# one for its kind of file, and that its text is in LICENSES/. Measured and expected outputs of tests are exempt.

set -euo pipefail
cd "$(dirname "$0")/.."

user_space='MIT OR Apache-2.0'
bpf='GPL-2.0-only OR BSD-2-Clause'
module='GPL-2.0-only'

bad=0
checked=0
complain() {
    printf '%s: %s\n' "$1" "$2" >&2
    bad=$((bad + 1))
}

while IFS= read -r -d '' file; do
    [ -f "$file" ] || continue
    case $file in
        LICENSES/* | */golden/* | */data/* | */corpus/* | */snapshots/*) continue ;;
        *.rs | *.c | *.h | *.sh | *.py | *.toml | *.md | *.js | *.css | *.yml) ;;
        Makefile | Kbuild | */Makefile | */Kbuild) ;;
        *)
            IFS= read -r -N 2 start <"$file" 2>/dev/null || continue
            [ "$start" = '#!' ] || continue
            ;;
    esac
    checked=$((checked + 1))
    # Without a process of its own for each file: the quick loop runs this.
    mapfile -t -n 5 lines <"$file"
    licence=
    if [[ ${lines[*]/%/$'\n'} =~ SPDX-License-Identifier:\ *([A-Za-z0-9.\ -]*[A-Za-z0-9.]) ]]; then
        licence=${BASH_REMATCH[1]}
    fi
    case $file in
        kmod/*.c | kmod/*.h | kmod/*Kbuild) expected=("$module") ;;
        *.bpf.c) expected=("$bpf") ;;
        # Other C may be shared by BPF programs, kernel modules and user space.
        *.h | *.c) expected=("$bpf OR $user_space" "$bpf" "$user_space") ;;
        *) expected=("$user_space") ;;
    esac
    if [ -z "$licence" ]; then
        complain "$file" "has no SPDX-License-Identifier in its first five lines; add: ${expected[0]}"
        continue
    fi
    known=false
    for one in "${expected[@]}"; do
        [ "$licence" != "$one" ] || known=true
    done
    $known || complain "$file" "is under \"$licence\"; files of this kind are under: ${expected[0]}"
done < <(git ls-files -z --cached --others --exclude-standard)

for name in MIT Apache-2.0 GPL-2.0-only BSD-2-Clause; do
    [ -s "LICENSES/$name.txt" ] || complain "LICENSES/$name.txt" "is missing"
done

[ "$checked" -gt 0 ] || complain "$(pwd)" "has no files to check; is it a git checkout?"
[ "$bad" -eq 0 ] || exit 1
printf 'licence lines: %d files checked\n' "$checked"
