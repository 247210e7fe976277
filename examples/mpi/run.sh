#!/bin/sh
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The same program by each MPI that the image has. What differs is how the libraries of one that is not the image's own
# get to the other replicas.
set -eu
mpirun python3 /code/sum.py
LD_LIBRARY_PATH=/opt/openmpi/lib /opt/openmpi/bin/mpirun -x LD_LIBRARY_PATH python3 /code/sum.py
LD_LIBRARY_PATH=/opt/mpich/lib /opt/mpich/bin/mpirun -genvlist LD_LIBRARY_PATH python3 /code/sum.py
