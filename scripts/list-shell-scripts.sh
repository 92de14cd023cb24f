#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Prints the names of our shell scripts, each ended by NUL, whatever they are called: what a shell's first line makes one.

set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -f "$file" ] && head -n 1 "$file" | tr -d '\0' | grep -qE '^#!.*[/ ](ba|da)?sh( |$)'; then
        printf '%s\0' "$file"
    fi
done
