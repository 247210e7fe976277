# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How the hosts of a launch get the images that they lack, one step after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.answers import ImagesAnswer, Moved
from ...model.calls import ImageTransfer, WantedImage
from ...model.decode import encode
from ...model.facts import HostFacts
from ...model.launch_state import ImageProgress, LaunchState
from ...rules.distribution import next_round, rounds_left
from ...rules.images import CONTROLLER, Need
from ...values.errors import InvalidInput, sentence
from ...values.image_names import in_words, is_pack, registry_of

BATCHES = 8
"""How many transfers a round has for each fork of Ansible: few rounds, and yet no server waits for long."""


class Distribution:
    """The state of the images of one launch, and the outcome of the last step."""

    def __init__(
        self,
        state: LaunchState,
        facts: Mapping[str, HostFacts],
        previous: ImageProgress | None,
        ports: tuple[int, int],
        limit: int,
        check_mode: bool,
    ) -> None:
        self.state = state
        self.facts = facts
        self.previous = previous
        self.ports = ports
        self.limit = limit
        self.check_mode = check_mode
        needs = state.images if previous is None else previous.needs
        self.needs = [Need.from_dict(need) for need in needs]
        self.round = 0 if previous is None else previous.round
        self.useless = {} if previous is None else {host: [*servers] for host, servers in previous.useless.items()}
        self.report: list[str] = []

    def resolved(self, answers: Mapping[str, ImagesAnswer]) -> None:
        """Record the answers of the registry."""
        for host, answer in answers.items():
            for need in self.needs:
                if need.asks != host:
                    continue
                digest = (answer.digests or {}).get(need.reference)
                why = sentence((answer.problems or {}).get(need.reference) or answer.why_not)
                self._resolved(need, host, digest, why, need.reference in (answer.denied or ()))

    def _resolved(self, need: Need, host: str, digest: str | None, why: str, is_denied: bool = False) -> None:
        try:
            need.resolved(digest, why, self.facts, is_denied)
        except InvalidInput as error:
            need.problems = dict.fromkeys(need.hosts, f"{why} {error}")
        self.report.append(
            f"{need.reference} is {need.digest}, says the registry to {host}."
            if digest
            else f"{host} could not ask the registry: {why}"
        )

    def _leave_out_silent(self) -> None:
        """Let no host ask a registry again that did not answer earlier in this run."""
        for need in self.needs:
            registry = registry_of(need.reference)
            why = f"{registry} gave no answer earlier in this run."
            silent = [host for host, registries in self.state.silent_registries.items() if registry in registries]
            if need.asks in silent:
                self._resolved(need, str(need.asks), None, why)
            for host in [host for host in need.pulling if host in silent]:
                need.pulled(host, None, why)
                self.report.append(f"{host} could not pull {need.reference}: {why}")

    def pulled(self, answers: Mapping[str, ImagesAnswer]) -> None:
        """Record the outcome of the pulls."""
        asked = {} if self.previous is None else self.previous.pulls
        for host, answer in answers.items():
            for wanted in asked.get(host, ()):
                self._pulled(self._need(wanted.reference), host, answer)

    def _need(self, reference: str) -> Need:
        return next(need for need in self.needs if need.reference == reference)

    def _pulled(self, need: Need, host: str, answer: ImagesAnswer) -> None:
        if self.check_mode and answer.pulled is not None:
            self._pretend(need, host)
            return
        pull = (answer.pulled or {}).get(need.reference)
        why = sentence((answer.problems or {}).get(need.reference) or answer.why_not)
        if pull is None:
            need.pulled(host, None, why, need.reference in (answer.denied or ()))
        else:
            need.pulled(host, pull.id, "", content=pull.content)
        self.report.append(
            f"{host} could not pull {need.reference}: {why}"
            if pull is None
            else f"{host} pulled {need.reference} ({_amount(pull)})."
        )

    def _pretend(self, need: Need, host: str) -> None:
        """Continue in check mode as if the pull had succeeded: the image's id is not known before a real pull."""
        need.has[host] = need.ids.setdefault(need.platforms[host], "")
        self.report.append(f"{host} would pull {need.digest}.")

    def arrived(self, served: Mapping[str, ImagesAnswer], answers: Mapping[str, ImagesAnswer]) -> None:
        """Record the outcome of the transfers of a round."""
        for receiver, transfer in ({} if self.previous is None else self.previous.receives).items():
            answer = answers.get(receiver, ImagesAnswer())
            source = served.get(transfer.sender, ImagesAnswer())
            is_of_use = self._arrived(transfer, source, answer)
            if source.server and not is_of_use:
                self.useless.setdefault(transfer.sender, []).append(source.server)

    def _arrived(self, transfer: ImageTransfer, source: ImagesAnswer, answer: ImagesAnswer) -> bool:
        """Record the outcome of one transfer. Return whether the receiver used the server of the sender."""
        sender, receiver = transfer.sender, transfer.receiver
        need = self._need(transfer.reference)
        if answer.bytes is None:
            why = self._why(transfer, source, answer)
            need.arrived(receiver, sender, why)
            self.report.append(why)
            return False
        need.arrived(receiver, sender, "", answer.image or "")
        if self.check_mode:
            self.report.append(f"{receiver} would get {in_words(need.reference)} from {sender}.")
        elif answer.bytes:
            amount = _amount(Moved(answer.bytes, answer.seconds or 0.0))
            self.report.append(f"{receiver} got {in_words(need.reference)} from {sender} ({amount}).")
        else:
            self.report.append(f"{receiver} has {in_words(need.reference)} already.")
        return bool(answer.bytes) or self.check_mode

    def _why(self, transfer: ImageTransfer, source: ImagesAnswer, answer: ImagesAnswer) -> str:
        sender, receiver = transfer.sender, transfer.receiver
        if sender == CONTROLLER:
            return f"{receiver} did not get {in_words(transfer.reference)} from the controller: {answer.why_not}"
        if source.port is None:
            return f"{sender} cannot give {in_words(transfer.reference)} to {receiver}: {source.why_not}"
        reason = (answer.msg or "it did not answer").strip()
        first, last = self.ports
        advice = ""
        if "cannot be reached" in reason:
            advice = (
                f" Hosts give images to each other on the TCP ports {first}-{last} (cluster_compute_image_ports): "
                "open them between the hosts."
            )
        return f"{receiver} did not get {in_words(transfer.reference)} from {sender}: {reason.rstrip('.')}.{advice}"

    def _asks(self) -> dict[str, list[str]]:
        """Return by host the references that it asks a registry for."""
        asks: dict[str, list[str]] = {}
        for need in self.needs:
            if need.asks is not None:
                asks.setdefault(need.asks, []).append(need.reference)
        return asks

    def _lacks(self) -> dict[str, list[Need]]:
        """Return by host the images that it lacks, without hosts that lack none."""
        lacks = {host: [need for need in self.needs if host in need.lacking] for host in self.state.fetches}
        return {host: needs for host, needs in lacks.items() if needs}

    def _pulls(self) -> dict[str, list[WantedImage]]:
        """Return by host the images that it pulls."""
        pulls: dict[str, list[WantedImage]] = {}
        for need in self.needs:
            for host in need.pulling if need.asks is None else ():
                pulls.setdefault(host, []).append(WantedImage(need.reference, str(need.digest)))
        return pulls

    def result(self) -> ImageProgress:
        """Return what each host does next, and the outcome if nothing is left to do."""
        self._leave_out_silent()
        asks, pulls = self._asks(), self._pulls()
        transfers: list[ImageTransfer] = []
        rounds = self.round
        if not asks and not pulls:
            transfers = next_round(self.needs, self.limit)
            rounds += rounds_left(self.needs, self.limit)
            self.round += bool(transfers)
        given = [transfer for transfer in transfers if transfer.sender == CONTROLLER]
        lacks = self._lacks()
        served = [transfer for transfer in transfers if transfer not in given]
        progress = f"round {self.round} of {rounds}, hosts: {len(transfers)}" if transfers else f"hosts: {len(pulls)}"
        return ImageProgress(
            needs=encode(self.needs),
            asks=asks,
            pulls=pulls,
            round=self.round,
            rounds=rounds,
            progress=progress,
            loads=[transfer.receiver for transfer in given],
            serves={transfer.sender: transfer for transfer in served},
            receives={transfer.receiver: transfer for transfer in transfers},
            addresses=_addresses(transfers, self.facts),
            ports=list(self.ports),
            useless=self.useless,
            report=self.report,
            missing={host: _why_not(host, needs) for host, needs in lacks.items()},
            passing=[host for host, needs in lacks.items() if all(host in need.passing for need in needs)],
            images={need.reference: encode(need.pinned()) for need in self.needs},
        )


def source_of(state: LaunchState, reference: str) -> tuple[str, tuple[str, ...]]:
    """Return from what the controller gives an image or a pack: its archive, engine or folder.

    The second value: what else may be in it. The action that carries the call out puts the place on the host there.
    """
    request = state.request.request
    if is_pack(reference):
        return str((request.get("workdir") or {}).get("path")), ()
    return str(request.get("image_archive") or request.get("image_from")), tuple(state.archive)


def _why_not(host: str, needs: Sequence[Need]) -> str:
    return " ".join(need.why_not(host) for need in needs)


def _addresses(transfers: Sequence[ImageTransfer], facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """Return by host the address with which it sends and receives, that of its tunnels."""
    hosts = {host for transfer in transfers for host in (transfer.sender, transfer.receiver)} - {CONTROLLER}
    return {host: underlay.address for host in sorted(hosts) if (underlay := facts[host].underlay)}


def _amount(moved: Moved) -> str:
    return f"{moved.bytes / 1e6:.1f} MB in {moved.seconds:.1f} s"
