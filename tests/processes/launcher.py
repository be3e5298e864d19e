#!/usr/bin/env python3
"""Starts processes with the environment that torchrun or srun gives them, for tests on machines without these.

  launcher.py [options] -n N COMMAND...     N processes of COMMAND

  --srun            srun's variables instead of torchrun's
    --store           with a key-value store at MASTER_PORT, like torchrun's, and its variables
    --kill R:S        kills process R once it has used S seconds of CPU time, so a busy machine does not matter
    --stop R:S        the same, but the process is stopped (SIGSTOP), and killed when all others have ended
    --clock           each line has the seconds since then: "0 err +4.2s: ..."
    --spaces A,B      starts the processes in these network namespaces in turn; --address is A's address in B
  --address HOST    MASTER_ADDR, by default 127.0.0.1

It prints each process's output with the process's number and stream: "0 out: ...", "1 err: ...". The exit status is the largest of
the processes', except of a killed one. If it gets SIGTERM, it ends all processes.
"""
import argparse
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time


class Store:
    """The part of PyTorch's TCPStore that is used here."""

    VALIDATE, SET, GET, WAIT = 0, 1, 3, 6

    def __init__(self):
        self.listener = socket.create_server(("", 0))
        self.port = self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.values = {}
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client.makefile("rwb"),), daemon=True).start()

    @staticmethod
    def text(client):
        (size,) = struct.unpack("=Q", client.read(8))
        return client.read(size)

    def serve(self, client):
        validated = False
        while asked := client.read(1):
            query = asked[0]
            if query == self.VALIDATE:
                validated = client.read(4) == struct.pack("=I", 0x3C85F7CE)
            elif not validated:
                return
            elif query == self.SET:
                key = self.text(client)
                with self.changed:
                    self.values[key] = self.text(client)
                    self.changed.notify_all()
            elif query == self.GET:
                value = self.values[self.text(client)]
                client.write(struct.pack("=Q", len(value)) + value)
                client.flush()
            elif query == self.WAIT:
                keys = [self.text(client) for _ in range(struct.unpack("=Q", client.read(8))[0])]
                with self.changed:
                    self.changed.wait_for(lambda: all(key in self.values for key in keys))
                client.write(b"\0")
                client.flush()
            else:
                return


def free_port():
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def variables(options, rank, port):
    own = {key: value for key, value in os.environ.items()
           if not key.startswith(("SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_"))}
    if options.srun:
        own.update(SLURM_PROCID=rank, SLURM_STEP_NUM_TASKS=options.n, SLURM_LOCALID=rank, SLURM_JOB_ID=os.getpid(),
                   SLURM_STEP_ID=0, SLURM_STEP_NODELIST="localhost")
    else:
        own.update(RANK=rank, WORLD_SIZE=options.n, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=options.n,
                   MASTER_ADDR=options.address, MASTER_PORT=port)
    if options.store:
        own.update(TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT=0)
    return {key: str(value) for key, value in own.items()}


def follow(stream, label, clock):
    for line in stream:
        since = f" +{time.monotonic() - clock[0]:.1f}s" if clock else ""
        sys.stdout.write(f"{label}{since}: {line}")
        sys.stdout.flush()


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_all(processes):
    for process in processes:
        process.kill()
    os._exit(128 + signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--srun", action="store_true")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--kill", default="")
    parser.add_argument("--stop", default="")
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--spaces", default="")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    port = Store().port if options.store else free_port()
    spaces = options.spaces.split(",") if options.spaces else []
    processes, threads = [], []
    clock = [time.monotonic()] if options.clock else []
    signal.signal(signal.SIGTERM, lambda *_: end_all(processes))
    for rank in range(options.n):
        command = (["ip", "netns", "exec", spaces[rank % len(spaces)]] if spaces else []) + options.command
        process = subprocess.Popen(command, env=variables(options, rank, port), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        processes.append(process)
        for stream, name in ((process.stdout, "out"), (process.stderr, "err")):
            threads.append(threading.Thread(target=follow, args=(stream, f"{rank} {name}", clock)))
            threads[-1].start()
    killed = -1
    if options.kill or options.stop:
        at = (options.kill or options.stop).split(":")
        killed, seconds = int(at[0]), float(at[1])
        while processes[killed].poll() is None and processor_seconds(processes[killed].pid) < seconds:
            time.sleep(0.05)
        processes[killed].send_signal(signal.SIGKILL if options.kill else signal.SIGSTOP)
        if clock:
            clock[0] = time.monotonic()
    for rank, process in enumerate(processes):
        if rank != killed:
            process.wait()
    if killed >= 0:
        processes[killed].kill()
        processes[killed].wait()
    for thread in threads:
        thread.join()
    return max(abs(p.returncode) for r, p in enumerate(processes) if r != killed)


if __name__ == "__main__":
    sys.exit(main())
