# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Decides which host sends an image to which, in rounds: in each, every host that has it serves one that lacks it.

The number of hosts that have it so doubles from round to round. If h hosts have it and n lack it, all are served after
ceil(log2((h + n) / h)) rounds: a binomial tree, in which no host ever sends to two others at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

from ..model.calls import ImageTransfer
from .images import CONTROLLER, Need


def next_round(needs: Sequence[Need], limit: int) -> list[ImageTransfer]:
    """Return the transfers that run in parallel next; none if nothing more can be done.

    limit: the most transfers in a round: Ansible runs only so many in parallel. In one round a host sends at most one
    image and receives at most one. The controller sends only images that no host can send, and one at a time.
    """
    found: list[ImageTransfer] = []
    sending: set[str] = set()
    receiving: set[str] = set()
    for need in needs:
        # The receiver to which most senders have failed has the fewest left to choose from, and chooses first.
        for receiver in sorted(need.lacking, key=lambda host: -len(need.tried.get(host, ()))):
            if len(found) >= limit:
                return found
            sender = None if receiver in receiving else _sender(need, receiver, sending)
            if sender is not None:
                sending.add(sender)
                receiving.add(receiver)
                found.append(_transfer(need, sender, receiver))
    return found


def _sender(need: Need, receiver: str, sending: Collection[str]) -> str | None:
    """Return who sends an image to a host, None if no host can now. sending: senders that are at work already."""
    senders = need.senders(receiver)
    if not senders and CONTROLLER not in sending and _only_the_controller(need, receiver):
        return CONTROLLER
    return next((sender for sender in senders if sender not in sending), None)


def _transfer(need: Need, sender: str, receiver: str) -> ImageTransfer:
    content = need.content_for(sender, receiver)
    return ImageTransfer(need.reference, need.id_at(sender, receiver), sender, receiver, content)


def _only_the_controller(need: Need, receiver: str) -> bool:
    """Tell whether the controller is to send: it has the image, no host has it, and its own try has not failed yet."""
    failed = any(CONTROLLER in senders for senders in need.tried.values())
    return need.is_in_archive(receiver) and not failed and need.wanted(receiver) not in need.has.values()


def rounds_left(needs: Sequence[Need], limit: int) -> int:
    """Return how many rounds it takes if all goes well."""
    ahead = copy.deepcopy(needs)
    rounds = 0
    while transfers := next_round(ahead, limit):
        rounds += 1
        for transfer in transfers:
            need = next(need for need in ahead if need.reference == transfer.reference)
            need.arrived(transfer.receiver, transfer.sender, "")
    return rounds
