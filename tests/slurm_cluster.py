"""A real SLURM on this machine, for tests: munged, slurmctld and slurmd of the test's own user in a folder of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo", "srun")
MISSING = "SLURM is not installed: apt-get install slurm-wlm munge"
NODES = ("one", "two")
CORES = 4  # that each of them hands out, whatever the machine has

_CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# cred_expire is also how long a job that is queued again waits before it may begin: 120 seconds by default, and where it is below 5
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmctldPort={control_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
# no systemd, no cgroups, no accounting
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=20
OverTimeLimit=0
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={port_one} CPUs={cores} RealMemory={memory} State=UNKNOWN
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={port_two} CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=one,two Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=0
PartitionName=high Nodes=one,two Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def is_installed() -> bool:
    """Whether all programs are there."""
    return all(_program(name) for name in PROGRAMS)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class SlurmCluster:
    """Two nodes, which are this machine twice, with the partitions ``main`` and ``high``, which preempts it.

    Their names are no host's: what runs on both needs ``MASTER_ADDR=127.0.0.1`` in the environment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.host = socket.gethostname().split(".")[0]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}  # their daemons

    @property
    def environment(self) -> dict[str, str]:
        """With which commands of SLURM, and ours, find it."""
        return {**os.environ, "SLURM_CONF": str(self.configuration)}

    def start(self) -> None:
        """Start the daemons, and wait until the nodes take jobs."""
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 // 2
        values = {"folder": self.folder, "host": self.host, "user": getpass.getuser(), "cores": CORES, "memory": memory}
        values |= dict(zip(("control_port", "port_one", "port_two"), free_ports(3), strict=True))
        self.configuration.write_text(_CONFIGURATION.format(**values))
        places = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munge.log", "pid-file": "munge.pid", "seed-file": "seed"}
        self._daemon("munged", "--foreground", "--force", *(f"--{name}={self.folder / file}" for name, file in places.items()))
        self.wait_until(lambda: (self.folder / "munge.socket").exists())
        self._daemon("slurmctld", "-D", "-c", "-f", str(self.configuration))
        for node in NODES:
            self._start_node(node)
        self._wait_for_nodes()

    def _start_node(self, node: str) -> None:
        self.nodes[node] = self._daemon("slurmd", "-D", "-c", "-N", node, "-f", str(self.configuration))

    def _wait_for_nodes(self) -> None:
        listed = ("sinfo", "--noheader", "--partition=main", "--format=%t %D")
        self.wait_until(lambda: self.call(*listed, check=False).split() == ["idle", "2"])

    def lose_node(self, node: str) -> None:
        """End a node's daemon without a word, and have SLURM miss it now and not in some minutes."""
        self.nodes[node].kill()
        self.nodes[node].wait()
        self.call("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")

    def bring_back(self, node: str) -> None:
        """Start it again, and wait until both nodes are free."""
        self._start_node(node)
        self.call("scontrol", "update", f"nodename={node}", "state=resume")
        self._wait_for_nodes()

    def _daemon(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        program = _program(name)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as said:
            process = subprocess.Popen([program, *words], stdout=said, stderr=said, env=self.environment, start_new_session=True)
        self.processes.append(process)
        return process

    def empty(self) -> None:
        """Cancel all jobs, and wait until they are gone."""
        self.call("scancel", "--me", check=False)
        self.wait_until(lambda: not self.call("squeue", "--noheader", check=False).strip(), seconds=60)

    def stop(self) -> None:
        """End everything, jobs first."""
        with contextlib.suppress(AssertionError):
            self.empty()
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()

    def call(self, *words: str, check: bool = True) -> str:
        """What a command of SLURM prints."""
        return subprocess.run(words, capture_output=True, text=True, check=check, env=self.environment, timeout=60).stdout

    def state(self, job: str) -> str:
        """SLURM's word for a job's state."""
        return self.call("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T", check=False).strip()

    def node(self, job: str) -> str:
        """Where a job runs."""
        return self.call("squeue", "--noheader", f"--jobs={job}", "--format=%N").strip()

    def wait_until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for something; fail, with what the daemons said, when it does not come."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about in {seconds:.0f} s\n{self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-2000:]}" for file in files)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def running_cluster() -> Iterator[SlurmCluster]:
    """A cluster from its start to its end."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:  # a short path: that of a socket has a bound
        cluster = SlurmCluster(Path(name))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
