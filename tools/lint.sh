#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every static check, all of them even when one fails, and fails if any did.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
failed=()

check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        echo "$output"
        failed+=("$name")
    fi
}

shell_scripts() {
    git ls-files -z --cached --others --exclude-standard -- ':!.collections' |
        while IFS= read -r -d '' file; do
            case $file in
                *.sh) printf '%s\0' "$file" ;;
                *) if head -n 1 "$file" | grep -qaE '^#!.*\b(ba|da)?sh\b'; then printf '%s\0' "$file"; fi ;;
            esac
        done
}

check_shell() {
    shell_scripts | xargs -0 shellcheck
}

check "ruff check" ruff check --quiet .
check "ruff format" ruff format --check --diff --quiet .
check "mypy" mypy --package ansible_collections.cluster_compute.session.plugins
check "mypy tools" mypy tools playbooks/ccs.py
check "mypy tests" mypy --package ansible_collections.cluster_compute.session.tests
check "yamllint" yamllint --strict .
check "ansible-lint" ansible-lint --offline -q --nocolor
check "changelog" antsibull-changelog lint
check "plugin documentation" antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
check "reference" python tools/make_reference.py --check
check "shellcheck" check_shell
check "structure" python tools/structure.py
# Sentences that have to be read twice, where none may be added. Lower the numbers when some are gone.
check "plain English, pages" python tools/plain_english.py --most 3 docs README.md CONTRIBUTING.md SECURITY.md
check "plain English, code" python tools/plain_english.py --most 67 plugins roles playbooks

if [ ${#failed[@]} -ne 0 ]; then
    printf 'Failed: %s\n' "${failed[*]}"
    exit 1
fi
