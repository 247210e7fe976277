# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which replica goes to which host: exact where the seeds and the user can tell the difference, bounded in time.

The rules, in order:

1. If one host can take every replica, they all go there, whatever mode was requested; the effective mode is
   single-node.
2. Mode single-node and no such host: a `Shortfall`.
3. Mode multi-node: the fewest hosts; among those the fewest groups of the coarsest topology key (zones), then of the
   next (racks); then the policy: ``pack`` leaves the least free on the hosts it uses, ``spread`` takes the hosts with
   most capacity and evens out, ``inventory`` takes hosts in inventory order. Ties go by inventory order.
4. All or nothing.

Exactness: replicas that request the same form one *shape*, whatever their roles. For one shape, and for main1 with a
shape of its own beside one other shape, feasibility and the number of hosts come from a closed form and are exact at
any size. For more shapes `prices` and a branch-and-bound search are exact too, within a budget of steps that does not
depend on the machine; `Placement.proven` and `Shortfall.proven` report whether they came to an end (packing many shapes
is NP-hard, so there has to be a bound). The number of topology groups is exact if the combinations of groups are few,
and also if the lower bound is met, see `Placement.closest_proven`.

Among the used hosts that have a replica of its shape, main1 goes to the host with most replicas (policy ``inventory``:
to the first). The other replicas are assigned in rank order, main1's host first, then in inventory order, so that
neighbouring ranks share a host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import mul

from ..model.fields import MULTI_NODE, SINGLE_NODE
from ..model.request import Request
from ..values.deferred import dataclass
from ..values.errors import InvalidInput, Problem
from ..values.parse import did_you_mean
from ..values.resources import PINNED, Devices, Resources, format_cpus, format_memory
from .packing import SEARCH_WORK, Chosen, Task
from .prices import Vector

CPUS = "cpus"
MEMORY = "memory"
REPLICAS = "replicas"
"""Names of resources in a shortfall; an accelerator goes by its class."""


@dataclass(frozen=True)
class Capacity:
    """Amounts on a host: millicpus, bytes, and (class, count) of resources that are assigned by name."""

    cpus: int
    memory: int
    devices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Host:
    """A host that sessions may use.

    allocatable: what sessions may use in all. free: what no other session holds now. labels: (key, value).
    max_replicas: how many more replicas it may take, None for no limit. replica_limit: how many it may have in all.
    devices, free_devices: the resources it assigns by name: all, and those that no other session holds. threads: the
    number of CPUs for which a core counts, if whole cores are assigned. is_suspect: whether it is used only if the
    other hosts are not enough. is_endpoint: whether a session on it and others can have an overlay.
    """

    name: str
    allocatable: Capacity
    free: Capacity
    labels: tuple[tuple[str, str], ...] = ()
    max_replicas: int | None = None
    replica_limit: int | None = None
    devices: Devices = ()
    free_devices: Devices = ()
    threads: int = 1
    is_suspect: bool = False
    is_endpoint: bool = True


def limited(host: Host, most: int) -> Host:
    """Return the host for a session that may have *most* more replicas there, whatever is free."""
    return replace(
        host,
        max_replicas=most if host.max_replicas is None else min(most, host.max_replicas),
        replica_limit=most if host.replica_limit is None else min(most, host.replica_limit),
    )


@dataclass(frozen=True)
class Placement:
    """The host of every replica.

    mode: the effective mode. assignments: (replica, host) in rank order. hosts: the used hosts in inventory order.
    node_order: the used hosts with main1's first, the others in inventory order. groups: (topology key, number of
    its groups used). least_hosts: as many are needed in any case. closest_proven: so few groups are known to be needed.
    """

    mode: str
    assignments: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    node_order: tuple[str, ...]
    groups: tuple[tuple[str, int], ...]
    least_hosts: int
    closest_proven: bool

    @property
    def proven(self) -> bool:
        """Whether the number of hosts is known to be the least."""
        return len(self.hosts) == self.least_hosts


@dataclass(frozen=True)
class Missing:
    """One resource: what was requested, what is free, what is missing (millicpus, bytes or a count)."""

    resource: str
    requested: int
    free: int
    missing: int


@dataclass(frozen=True)
class HostShortfall:
    """One host's part of a shortfall. fits: how many replicas of one role it could take now."""

    host: str
    fits: int
    resources: tuple[Missing, ...]


@dataclass(frozen=True)
class Shortfall:
    """Why a request cannot be placed now.

    mode: the requested mode. size: replicas requested. largest_size: the longest run of replicas in rank order (main1,
    sub1, ...) that would fit now in that mode. hosts: in inventory order. For single-node, the whole session is
    compared with each host; for multi-node, one replica is (the most that any requests of each resource). total: the
    whole session against all hosts together. when_idle: whether it would fit if no other session held anything. proven:
    False only if the search for several shapes ran out of steps, so that a placement may exist that was not found.
    """

    mode: str
    size: int
    largest_size: int
    hosts: tuple[HostShortfall, ...]
    total: tuple[Missing, ...]
    when_idle: bool
    proven: bool


def doubts(placement: Placement) -> list[str]:
    """Return for people what the search for a place did not find out."""
    used = len(placement.hosts)
    if not placement.proven:
        needed = "1 is" if placement.least_hosts == 1 else f"{placement.least_hosts} are"
        return [
            f"The replicas are on {used} hosts. At least {needed} needed; the search for a way with fewer than {used} "
            "was given up."
        ]
    groups = [f"{key}: {number}" for key, number in placement.groups if number > 1]
    if groups and not placement.closest_proven:
        return [f"The search for {used} hosts that are closer to each other was given up ({', '.join(groups)})."]
    return []


def format_amount(resource: str, amount: int) -> str:
    """Return an amount of *resource* for people: CPUs, memory with its unit, or a count."""
    if resource == CPUS:
        return format_cpus(amount)
    return format_memory(amount) if resource == MEMORY else str(amount)


def place(
    request: Request,
    hosts: Sequence[Host],
    topology_keys: Sequence[str] = (),
    known_hosts: Iterable[str] | None = None,
) -> Placement | Shortfall:
    """Place *request* on *hosts*, which are in inventory order; on suspect hosts only if that is necessary.

    topology_keys: host labels, coarse to fine. known_hosts: every name of the resource group, unusable hosts included,
    so that it is not an error to name a host that is down; default are the names of *hosts*.
    Raises InvalidInput for designated or excluded hosts that are unknown, if there are no hosts at all, and for a
    replica that is larger than what any host can ever give.
    """
    candidates = _candidates(request, hosts, known_hosts)
    _check_allocatable(request, candidates)
    trusted = [host for host in candidates if not host.is_suspect]
    if trusted and len(trusted) < len(candidates):
        found = _place_connected(request, trusted, topology_keys)
        if isinstance(found, Placement):
            return found
    return _place_connected(request, candidates, topology_keys)


def _place_connected(
    request: Request, candidates: Sequence[Host], topology_keys: Sequence[str]
) -> Placement | Shortfall:
    """Place a request; a session that needs an overlay, for several hosts or for growth, goes where one is possible."""
    connected = [host for host in candidates if host.is_endpoint]
    if len(connected) == len(candidates):
        return _place(request, candidates, topology_keys)
    grows = request.max_size is not None and request.mode == MULTI_NODE
    if connected and grows:
        return _place(request, connected, topology_keys)
    alone = _place(request, candidates, topology_keys)
    if isinstance(alone, Placement) and alone.mode == MULTI_NODE:
        if connected:
            return _place(request, connected, topology_keys)
        # No two hosts can be connected, so only a host that is large enough would help.
        return _place(replace(request, mode=SINGLE_NODE), candidates, topology_keys)
    return alone


def _place(request: Request, candidates: Sequence[Host], topology_keys: Sequence[str]) -> Placement | Shortfall:
    """Place a request on hosts that may all be used."""
    numbers = _Shapes(request, candidates, [host.free for host in candidates])
    task = numbers.task
    alone = task.one_host()
    if alone is not None:
        chosen = Chosen({alone: list(task.counts)}, True)
        return _placement(request, candidates, numbers, SINGLE_NODE, chosen, topology_keys, 1)
    if request.mode == SINGLE_NODE:
        return _shortfall(request, candidates, numbers, True)
    ids = range(len(candidates))
    least = task.fewest(ids)
    if least.hosts is None:
        return _shortfall(request, candidates, numbers, least.proven)
    chosen = task.solve(ids, least, _paths(candidates, topology_keys))
    return _placement(request, candidates, numbers, MULTI_NODE, chosen, topology_keys, least.bound)


def _candidates(request: Request, hosts: Sequence[Host], known_hosts: Iterable[str] | None) -> list[Host]:
    names = [host.name for host in hosts]
    _check_names(request, set(names) if known_hosts is None else set(known_hosts).union(names))
    candidates = [host for host in hosts if request.may_use(host.name)]
    if candidates:
        return candidates
    if not names:
        raise InvalidInput.single("session_resource_group", request.resource_group, "It has no usable host.")
    if request.hosts:
        message = "None of these hosts can be used now. Name others, or none to use the whole group."
        raise InvalidInput.single("session_hosts", ", ".join(request.hosts), message)
    excluded = ", ".join(request.excluded_hosts)
    raise InvalidInput.single("session_excluded_hosts", excluded, "This leaves no usable host.")


def _check_names(request: Request, known: set[str]) -> None:
    """Reject a request that names hosts which the resource group does not have."""
    problems = []
    for variable, chosen in (("session_hosts", request.hosts), ("session_excluded_hosts", request.excluded_hosts)):
        for name in chosen:
            if name not in known:
                why = f"There is no such host in group {request.resource_group}.{did_you_mean(name, known)}"
                problems.append(Problem(variable, name, why))
    if problems:
        raise InvalidInput(problems)


def _check_allocatable(request: Request, hosts: Sequence[Host]) -> None:
    """Reject a request that can never run: a replica larger than what every host may give to sessions in all."""
    problems = []
    common = len({role.resources for role in request.roles}) == 1
    seen: set[Resources] = set()
    for position, role in enumerate(request.roles):
        if role.resources not in seen:
            seen.add(role.resources)
            place_ = "session_" if common else f"session_roles[{position}] ({role.name})."
            problems += _never_fits(place_, role.resources, hosts)
    if problems:
        raise InvalidInput(problems)


def _never_fits(place_: str, resources: Resources, hosts: Sequence[Host]) -> list[Problem]:
    """Return what one replica requests that no host may ever give to it; nothing if some host may give it all."""
    free = [_amounts(host.allocatable) for host in hosts]
    wanted = [_requested(resources, host.threads) for host in hosts]
    if any(map(_is_enough, free, wanted)):
        return []
    requested = _requested(resources)
    shown = {resource: format_amount(resource, amount) for resource, amount in requested.items()}
    problems = [
        Problem(
            place_ + _FIELDS.get(resource, f"accelerators.{resource}"),
            shown[resource],
            "No host can give that to one replica; the most any has for sessions is "
            f"{format_amount(resource, max(r.get(resource, 0) for r in free))}.",
        )
        for resource in requested
        if all(w[resource] > r.get(resource, 0) for r, w in zip(free, wanted))
    ]
    if problems:
        return problems
    all_of_it = ", ".join(f"{resource} {amount}" for resource, amount in shown.items())
    message = "No single host has all of that for one replica, though each for itself."
    return [Problem(place_ + CPUS, all_of_it, message)]


_FIELDS = {CPUS: CPUS, MEMORY: MEMORY, PINNED: "pin_cpus"}
"""The variables that request resources, without their prefix; all others are classes of accelerators."""


def _is_enough(free: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in wanted.items())


def _requested(resources: Resources, threads: int = 1) -> dict[str, int]:
    return {CPUS: resources.cpus, MEMORY: resources.memory, **dict(resources.devices(threads))}


def _amounts(capacity: Capacity) -> dict[str, int]:
    return {CPUS: capacity.cpus, MEMORY: capacity.memory, **dict(capacity.devices)}


def _paths(hosts: Sequence[Host], keys: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return, for each topology key that any host has, the group of every host.

    A rack is a rack of its zone: the group is the path from the coarsest key. Hosts without a label share one group.
    """
    labels = [dict(host.labels) for host in hosts]
    used = [key for key in keys if any(key in label for label in labels)]
    return [[tuple(label.get(key, "") for key in used[: level + 1]) for label in labels] for level in range(len(used))]


class _Shapes:
    """A request and its hosts in the numbers of `packing`.

    The number of CPUs that a replica takes by pinning depends on the threads that the cores of its host have. So there
    is one resource of pinned CPUs for each number of threads. Hosts with other numbers have as much of it as can be
    requested.
    """

    def __init__(self, request: Request, hosts: Sequence[Host], capacities: Sequence[Capacity]) -> None:
        classes = sorted({name for role in request.roles for name, _count in role.resources.accelerators})
        threads = _threads(request, hosts)
        self.names = (CPUS, MEMORY, *classes, *(PINNED for _number in threads), REPLICAS)
        self.threads = (*(None for _name in self.names[: 2 + len(classes)]), *threads, None)
        """For each resource the number of threads of the hosts that it applies to, None for all hosts."""
        shape_of_role = [_shape(role.resources, classes, threads) for role in request.roles]
        shapes = list(dict.fromkeys(shape_of_role))
        self.of_role = list(map({shape: number for number, shape in enumerate(shapes)}.__getitem__, shape_of_role))
        counts = [0] * len(shapes)
        for number, role in zip(self.of_role, request.roles):
            counts[number] += role.replicas
        pinned = slice(2 + len(classes), -1)
        whole = {
            number: sum(map(mul, counts, amounts))
            for number, amounts in zip(threads, zip(*(shape[pinned] for shape in shapes)))
        }
        size = request.size
        limit = request.max_replicas_per_host or size
        most = [min(limit, size if host.max_replicas is None else host.max_replicas) for host in hosts]
        vectors = [_vector(*of_host, classes, whole) for of_host in zip(hosts, capacities, most)]
        leftover = [_left_over(capacity, classes, index) for index, capacity in enumerate(capacities)]
        self.task = Task(shapes, counts, vectors, leftover, request.policy, main_alone=counts[0] == 1)


def _threads(request: Request, hosts: Sequence[Host]) -> list[int]:
    """Return the numbers of threads of hosts' cores for which a request pins CPUs; none if it does not pin any."""
    pins = any(role.resources.pin_cpus for role in request.roles)
    return sorted({host.threads for host in hosts}) if pins else []


def _shape(resources: Resources, classes: Sequence[str], threads: Sequence[int]) -> Vector:
    """Return the request of one replica, which takes other CPUs by pinning for each number of threads."""
    requested = dict(resources.accelerators)
    pinned = (dict(resources.devices(number)).get(PINNED, 0) for number in threads)
    return (resources.cpus, resources.memory, *(requested.get(name, 0) for name in classes), *pinned, 1)


def _left_over(capacity: Capacity, classes: Sequence[str], index: int) -> Vector:
    """Return what a host would leave free: unrequested accelerators weigh most, then CPUs, then memory."""
    idle = sum(count for name, count in capacity.devices if name != PINNED and name not in classes)
    return (idle, capacity.cpus, capacity.memory, index)


def _vector(host: Host, capacity: Capacity, most: int, classes: Sequence[str], whole: Mapping[int, int]) -> Vector:
    """Return the capacity of a host. whole: by number of threads, the CPUs that the whole request would pin there."""
    have = dict(capacity.devices)
    pinnable = (have.get(PINNED, 0) if host.threads == number else amount for number, amount in whole.items())
    free = (capacity.cpus, capacity.memory, *(have.get(name, 0) for name in classes), *pinnable, most)
    return tuple(max(0, amount) for amount in free)


def _placement(
    request: Request,
    hosts: Sequence[Host],
    numbers: _Shapes,
    mode: str,
    chosen: Chosen,
    topology_keys: Sequence[str],
    least_hosts: int,
) -> Placement:
    counts = {i: list(chosen.counts[i]) for i in sorted(chosen.counts)}
    able = [i for i in counts if counts[i][0]]
    main = able[0] if request.policy == "inventory" else max(able, key=lambda i: (sum(counts[i]), -i))
    node_order = [main, *(i for i in counts if i != main)]
    paths = _paths([hosts[i] for i in counts], topology_keys)
    labelled = [key for key in topology_keys if any(key in dict(hosts[i].labels) for i in counts)]
    return Placement(
        mode,
        tuple(_assignments(request, hosts, numbers, {i: counts[i] for i in node_order})),
        tuple(hosts[i].name for i in counts),
        tuple(hosts[i].name for i in node_order),
        tuple((key, len(set(path))) for key, path in zip(labelled, paths)),
        least_hosts,
        chosen.closest_proven,
    )


def _assignments(
    request: Request, hosts: Sequence[Host], numbers: _Shapes, counts: Mapping[int, Sequence[int]]
) -> Iterator[tuple[str, str]]:
    """Return the host of each replica, in rank order. counts: of each shape, by host in the order of node ranks."""
    # Of each shape the hosts of its replicas, the last one first, so that each is taken from the end.
    following = [
        [i for i, of_shapes in counts.items() for _replica in range(of_shapes[s])][::-1]
        for s in range(len(numbers.task.shapes))
    ]
    for role, shape in zip(request.roles, numbers.of_role):
        for index in range(1, role.replicas + 1):
            yield f"{role.name}{index}", hosts[following[shape].pop()].name


def _shortfall(request: Request, hosts: Sequence[Host], numbers: _Shapes, proven: bool) -> Shortfall:
    task = numbers.task
    total = task.total(task.counts)
    of_one = [max(shape[d] for shape in task.shapes) for d in range(task.dimensions)]
    requested = total if request.mode == SINGLE_NODE else of_one
    rows = tuple(
        HostShortfall(
            host.name,
            max(task.slots_of(capacity, shape) for shape in range(len(task.shapes))),
            tuple(_missing(numbers, requested, capacity, host.threads)),
        )
        for host, capacity in zip(hosts, task.capacities)
    )
    least = min((number for number in numbers.threads if number), default=None)
    totals = tuple(_missing(numbers, total, _all_free(hosts, numbers), least))
    largest, size_proven = _largest_size(request, hosts, task)
    return Shortfall(
        request.mode, request.size, largest, rows, totals, _fits_idle(request, hosts), proven and size_proven
    )


def _all_free(hosts: Sequence[Host], numbers: _Shapes) -> list[int]:
    """Return what is free of each resource on all hosts together."""
    pinnable = sum(dict(host.free.devices).get(PINNED, 0) for host in hosts)
    return [
        pinnable if name == PINNED else sum(capacity[d] for capacity in numbers.task.capacities)
        for d, name in enumerate(numbers.names)
    ]


def _fits_idle(request: Request, hosts: Sequence[Host]) -> bool:
    """Tell whether a request would fit if no other session held anything, as far as the search finds out."""
    all_idle = [replace(host, max_replicas=host.replica_limit) for host in hosts]
    idle = _Shapes(request, all_idle, [host.allocatable for host in hosts]).task
    if idle.one_host() is not None:
        return True
    return request.mode != SINGLE_NODE and idle.fewest(range(len(hosts)), SEARCH_WORK // 4).hosts is not None


def _missing(numbers: _Shapes, requested: Sequence[int], free: Sequence[int], threads: int | None) -> Iterator[Missing]:
    for name, of_threads, ask, have in zip(numbers.names, numbers.threads, requested, free):
        if ask and of_threads in (None, threads):
            yield Missing(name, ask, have, max(0, ask - have))


def _largest_size(request: Request, hosts: Sequence[Host], task: Task) -> tuple[int, bool]:
    """The longest run of replicas in rank order that fits now; a shorter run fits wherever a longer one does."""
    single = request.mode == SINGLE_NODE
    if task.linear:
        return task.largest(single), True
    low, high, proven = 0, request.size - 1, True
    capacities = [host.free for host in hosts]
    while low < high:
        middle = (low + high + 1) // 2
        shorter = _Shapes(_shortened(request, middle), hosts, capacities).task
        fits = shorter.one_host() is not None
        if not fits and not single:
            least = shorter.fewest(range(len(hosts)), SEARCH_WORK // 12)
            fits = least.hosts is not None
            proven = proven and (fits or least.proven)
        if fits:
            low = middle
        else:
            high = middle - 1
    return low, proven


def _shortened(request: Request, size: int) -> Request:
    """The same request with only its first *size* replicas."""
    roles = []
    for role in request.roles:
        number = min(role.replicas, size)
        size -= number
        if number:
            roles.append(replace(role, replicas=number))
    return replace(request, roles=tuple(roles))
