#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every ansible-test sanity test on what is published, which the tests are not (ruff and mypy judge them), or with
# the argument "units" ansible-test units for what imports Ansible, in a copy of the tree that lies where ansible-test
# wants it. The home folder is one of its own: ansible-test keeps its downloads and virtual environments there. So is the
# folder for temporary files: ansible-test starts Python programs that it puts there, and a file such as re.py that
# somebody left in /tmp would be imported in place of Python's own.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache
tree=$cache/ansible_collections/cluster_compute/session
version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

mkdir -p "$cache/home/.ansible/test/cache" "$cache/home/.config" "$cache/tmp"
# The names under which ansible-core 2.16 and 2.17, 2.18 and 2.19, 2.20 and 2.21 look for it.
for release in 23_1_2 24_2 25_2; do
    cp tools/get_pip.py "$cache/home/.ansible/test/cache/get_pip_$release.py"
done
if [ -d "$HOME/.config/pip" ]; then
    ln -sfn "$HOME/.config/pip" "$cache/home/.config/pip"
fi
tools/sync_tree.sh "$tree"

unset ANSIBLE_CONFIG
export HOME=$cache/home TMPDIR=$cache/tmp
cd "$tree"
if [ "$*" = units ]; then
    # The others need nothing of Ansible, and run with make unit, as these do.
    what=(units tests/unit/plugins/{action,callback,connection,filter,inventory,plugin_utils}/)
else
    what=(sanity --exclude tests/)
fi
echo "ansible-test ${what[*]} --python $version"
ansible-test "${what[@]}" --python "$version" --color no
