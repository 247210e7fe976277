# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The tools of .venv, and the checkout's own settings wherever the checkout lies: ansible ignores an ansible.cfg in a
# folder that everybody may write to, unless it is named.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis

LAB := ansible-playbook -i inventories/lab
DEMO := -e @examples/demo_session.yml

.PHONY: help
help: ## List the targets, with the time that checks take on two cores
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

.PHONY: setup
setup: .venv/.complete ## Make .venv with the pinned Python packages (1 min)
	@:

.venv/.complete: requirements/controller.txt requirements/develop.txt tools/make_venv.sh tools/get_collection.py
	@tools/make_venv.sh

.PHONY: lab-up
lab-up: setup ## Bring up the lab: three hosts on this machine, ready for sessions
	$(LAB) playbooks/lab_up.yml
	$(LAB) playbooks/prepare_hosts.yml
	$(LAB) playbooks/lab_images.yml

.PHONY: launch
launch: lab-up ## Bring up the lab, launch the demo session in it and prove that it works (80 s)
	$(LAB) playbooks/launch_cluster.yml $(DEMO)
	$(LAB) playbooks/demo_proof.yml $(DEMO)

.PHONY: teardown
teardown: setup ## Remove the demo session
	$(LAB) playbooks/teardown_cluster.yml $(DEMO)

.PHONY: lab-down
lab-down: setup ## Remove the lab and all that is in it
	$(LAB) playbooks/lab_down.yml

.PHONY: lint
lint: setup ## Static checks: style, types, YAML, playbooks, shell, changelog (2 min)
	@tools/need.sh shellcheck=shellcheck
	@tools/lint.sh

.PHONY: quick
quick: setup ## Style, types, fast unit tests and one file on real engines (1 min)
	@tools/quick.sh

.PHONY: unit
unit: setup ## Unit tests of the core, the modules and the tools (11 min by two processes)
	@tools/need.sh ssh=openssh-client fish=fish tcsh=tcsh mksh=mksh
	pytest tests/unit

.PHONY: contract
contract: setup ## The hosts' side against a real engine of each generation, without SSH and Ansible (22 min beside make unit)
	pytest tests/contract --each-once

.PHONY: browser
browser: setup ## The status page in a real browser
	@tools/need.sh chromium=chromium chromedriver=chromium-driver
	pytest tests/browser

.PHONY: awx
awx: setup ## The playbook for AWX, and the definition of the execution environment (2 min)
	pytest tests/awx

.PHONY: reference
reference: setup ## Write docs/reference anew from the sources
	@python tools/make_reference.py

.PHONY: docs
docs: setup ## The documentation as pages, in .cache/site: built, every link followed (5 s)
	@# Not --quiet: warnings that are not shown do not count for --strict. What is switched off is the notice until when the
	@# theme is maintained, which CONTRIBUTING says.
	@NO_MKDOCS_2_WARNING=1 mkdocs build --strict
	@python tools/check_site.py .cache/site
	@echo "Read .cache/site/index.html"

.PHONY: pictures
pictures: lab-up ## Make the pictures of the documentation anew, from a session on the lab
	@tools/need.sh chromium=chromium
	@python tools/make_pictures.py

.PHONY: sanity
sanity: setup ## ansible-test sanity (4 min)
	@tools/need.sh shellcheck=shellcheck
	@tools/sanity.sh

.PHONY: matrix
matrix: setup ## Unit, contract and sanity tests, and sessions on a lab, with every supported ansible-core that can run here
	@tools/need.sh shellcheck=shellcheck fish=fish tcsh=tcsh mksh=mksh
	@status=0; python tools/matrix.py --lab || status=$$?; python tools/make_reference.py; exit $$status

.PHONY: other-kernel
other-kernel: setup ## Tests of what the kernel has to be able to, under Debian 12's own in a virtual machine
	@tools/need.sh qemu-system-x86_64=qemu-system-x86
	@python tools/other_kernel.py python -m pytest -q tests/other_kernel

.PHONY: machines-up
machines-up: setup ## Virtual machines with the kernels and systemd of Debian 12, 13 and forky, prepared for sessions
	@tools/need.sh qemu-system-x86_64=qemu-system-x86 qemu-img=qemu-utils mmdebstrap=mmdebstrap mkfs.ext4=e2fsprogs iptables=iptables ip=iproute2 ssh=openssh-client
	@python tools/machines.py up

.PHONY: machines-test
machines-test: machines-up ## Tests of sessions on these machines; what passed is noted in docs/support_matrix.md
	@python tools/machines.py test

.PHONY: machines-down
machines-down: setup ## Remove the machines and all that is theirs
	@python tools/machines.py down

.PHONY: molecule
molecule: setup ## Molecule scenarios of the roles
	@tools/molecule.sh

.PHONY: integration
integration: setup ## Tests on labs with real engines, three labs side by side (60 min)
	@tools/need.sh chromium=chromium chromedriver=chromium-driver
	pytest tests/integration_lab --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: stamps
stamps: setup ## Tests of the lab, examples, execution environment and benchmarks, where these have changed; note that they passed
	python tools/stamps.py

.PHONY: bench
bench: setup ## Time launches, placement, reservations, the SSH runtime and the way of images
	@tools/bench.sh

.PHONY: bench-scale
bench-scale: setup ## What one more host costs the controller: 100 and 1,000 names of an inventory
	@python tests/benchmarks/bench_scale.py

.PHONY: yardstick
yardstick: setup ## Compare the placement of several roles with OR-tools, which is installed aside (4 min)
	@tools/yardstick.sh

.PHONY: bench-smoke
bench-smoke: setup ## Run every benchmark once at its smallest, to see that it works; nothing where none has changed
	@python tools/stamps.py benchmarks

.PHONY: build
build: setup ## Build the collection, install the result aside and use it from there (1 min)
	@tools/build.sh

.PHONY: mutants
mutants: setup ## Change the sources in 20 small ways, and see whether the unit tests notice each
	@python tools/mutants.py

.PHONY: certify
certify: setup ## Check the collection as a hub does: galaxy-importer, ansible-lint on what was built, ansible-test units
	@tools/need.sh fish=fish tcsh=tcsh mksh=mksh
	@tools/sanity.sh units
	@tools/certify.sh

.PHONY: test
test: setup ## Every check: contract, lint, unit, sanity, bench-smoke, molecule, awx, browser, build, docs, integration
	@# The longest of them begin first, or one would run alone at the end.
	@tools/test.sh "contract lint unit sanity bench-smoke molecule awx browser build docs" integration

.PHONY: clean
clean: ## Remove .venv and all that the checks made in the checkout
	rm -rf .venv .cache .ansible .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/output
