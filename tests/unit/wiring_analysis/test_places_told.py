"""Which rank sits where, from the tables and banners that launchers print."""

from __future__ import annotations

import pytest

from middlewatch.wiring.analysis.places import places_in

MPI_MAP = b""" Data for node: sx-gpu05\tNum slots: 2\tMax slots: 0\tNum procs: 2
 \tProcess OMPI jobid: [41317,1] App: 0 Process rank: 0 Bound: N/A
 \tProcess OMPI jobid: [41317,1] App: 0 Process rank: 1 Bound: N/A

 Data for node: sx-gpu07\tNum slots: 2\tMax slots: 0\tNum procs: 2
 \tProcess OMPI jobid: [41317,1] App: 0 Process rank: 2 Bound: N/A
 \tProcess OMPI jobid: [41317,1] App: 0 Process rank: 3 Bound: N/A
"""
DEEPSPEED = (
    b"c2: [2026-06-30 02:11:56,016] [INFO] [launch.py:146:main] "
    b"WORLD INFO DICT: {'kestrel-c1': [0, 1], 'kestrel-c2': [0, 1]}\n"
)
RAY = b"""(TrainController pid=2719) - (ip=10.61.3.17, pid=7737) world_rank=0, local_rank=0, node_rank=0
(TrainController pid=2719) - (ip=10.61.3.22, pid=7131) world_rank=1, local_rank=0, node_rank=1
"""
BANNER = b"== magpie-09 ranks 0..3 hca mlx5_0 ==\n== magpie-10 ranks 4..7 hca mlx5_0 ==\n"
LISTED = (
    b"[submit] node_rank=0 host=fin-0107 ranks=0-7\n[submit] node_rank=1 host=fin-0112 ranks=8-15\n"
)
SYSLOG = (
    b"Jul 03 09:40:26 b9-gpu2 vlm[31153]: <9> up, device cuda:1, NUMA 0\n"
    b"Jul 03 09:40:26 b9-gpu1 vlm[31051]: <3> up, device cuda:3, NUMA 0\n"
)
SIGNED = b"(rank 6 @ wren-b) process group ready\n(rank 1 @ wren-a) process group ready\n"


@pytest.mark.parametrize(
    ("log", "rank", "node", "local"),
    [
        (MPI_MAP, 3, "sx-gpu07", 1),
        (DEEPSPEED, 2, "kestrel-c2", 0),
        (RAY, 1, "10.61.3.22", 0),
        (BANNER, 6, "magpie-10", 2),
        (LISTED, 13, "fin-0112", 5),
        (SYSLOG, 9, "b9-gpu2", 1),
        (SIGNED, 6, "wren-b", None),
    ],
)
def test_rank_is_placed_by_what_the_launcher_says(
    log: bytes, rank: int, node: str, local: int | None
) -> None:
    places = places_in(log)
    assert places.node_of(rank) == node
    if local is not None:
        assert places.local_of(rank) == local


def test_process_of_ray_is_the_rank_of_its_address_and_number() -> None:
    places = places_in(RAY)
    assert places.rank_of_process("(RayTrainWorker pid=7131, ip=10.61.3.22) OSError: x") == 1
    assert places.rank_of_process("(RayTrainWorker pid=1, ip=10.61.3.22) OSError: x") is None
    died = "(raylet, ip=10.61.3.22) A worker died. Worker IP address: 10.61.3.22 Worker port: 1"
    assert places.rank_of_process(f"{died} Worker PID: 7131 Worker exit type: SYSTEM_ERROR") == 1
    raised = "RayTaskError(OSError): ray::Worker.run() (pid=7131, ip=10.61.3.22, actor_id=4d)"
    assert places.rank_of_process(raised) == 1
    assert places.address_told(died) == "10.61.3.22"
    assert places.address_told("(IP: 10.0.0.1, ip=10.0.0.2) both") is None


def test_pod_is_another_name_of_its_node() -> None:
    table = (
        b"NAME                         READY   STATUS    RESTARTS   AGE   IP            NODE        NOMINATED NODE\n"
        b"mt70b-r4-job-0-0-xjwps       1/1     Running   0          41s   10.84.16.40   gke-a3-mjf0   <none>\n"
        b"mt70b-r4-job-0-1-c4vjz       1/1     Running   0          41s   10.84.17.6    gke-a3-6z1n   <none>\n"
        b"E0311 coordination_service.cc:1219] /job:jax_worker/replica:0/task:1 has been set to ERROR\n"
    )
    places = places_in(table)
    assert places.node_told("[pod/mt70b-r4-job-0-1-c4vjz/jax-gpu] gone") == "gke-a3-6z1n"
    assert places.node_of(1) == "gke-a3-6z1n"


def test_workers_of_a_job_follow_its_master() -> None:
    events = (
        b"Successfully assigned ml/sft-worker-0 to ip-10-90-4-61.nb\n"
        b"Successfully assigned ml/sft-master-0 to ip-10-90-4-17.nb\n"
        b"sft-master-0 pytorch | PET_NNODES=2 NPROC_PER_NODE=8\n"
    )
    places = places_in(events)
    assert places.node_of(3) == "ip-10-90-4-17.nb"
    assert places.node_of(11) == "ip-10-90-4-61.nb"


def test_an_address_in_rays_table_is_the_host_that_another_line_gives_it() -> None:
    places = places_in(
        b"node 1: ray-gpu-12 (10.61.3.22) alive\nnode 0: ray-gpu-10 (10.61.3.17)\n" + RAY
    )
    assert places.node_of(1) == "ray-gpu-12"
    assert "10.61.3.22" not in places.nodes
    assert places.address_told("(RayTrainWorker pid=7131, ip=10.61.3.22) x") == "ray-gpu-12"
