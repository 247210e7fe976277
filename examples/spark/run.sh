#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A standalone cluster of Spark, with a worker in each replica, and a program that uses it. Nothing is said about
# addresses but the master's name.
set -eu
spark-class org.apache.spark.deploy.master.Master &
session-run spark-class org.apache.spark.deploy.worker.Worker --cores 1 --memory 512m --work-dir /tmp/spark spark://main1:7077 &
workers=$!
spark-submit --conf spark.ui.enabled=false --master spark://main1:7077 --executor-memory 512m /code/words.py
# The workers end with it: session-run passes the signal on to all of them.
kill "$workers"
wait "$workers" || true
