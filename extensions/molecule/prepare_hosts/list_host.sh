#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Lists what a host has: files with their content, settings of the engine, firewall rules, links.
set -eu
export LC_ALL=C PATH="/usr/sbin:/sbin:$PATH"
for folder in /etc /usr/local /var/lib /var/spool/cron /root; do
    [ -d "$folder" ] || continue
    find "$folder" -xdev \( -path /var/lib/docker -o -path /var/lib/containerd -o -path /var/lib/apt -o -path /root/.ansible \) -prune \
        -o -type f -exec sha256sum {} + -o -type l -printf 'link %p %l\n' -o -type d -printf 'folder %p\n'
done | grep -v ' /root/\.' | sort
cat /etc/docker/daemon.json 2>/dev/null || echo 'no daemon.json'
docker info --format '{{range $name, $value := .Runtimes}}runtime {{$name}} {{end}}'
{ iptables-save; ip6tables-save; } | grep -v '^#' | sed 's/ *\[[0-9]*:[0-9]*\]//'
ip -o link | cut -d: -f2 | cut -d@ -f1 | sort
