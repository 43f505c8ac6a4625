# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0
"""The classic distributed program of TensorFlow 1: parameter servers hold the model, workers train it.

Every process is told the addresses of all, and which of them it is. Worker 0 is the chief: it initialises the model, or
restores it from the last checkpoint, and writes checkpoints.
"""

import argparse
import time

import numpy as np
import tensorflow.compat.v1 as tf

FEATURES, BATCH = 8, 32


def batches(seed):
    """Endless samples of a linear function, with a little noise."""
    slope = np.linspace(-1, 1, FEATURES, dtype=np.float32)
    random = np.random.default_rng(seed)
    while True:
        x = random.normal(size=(BATCH, FEATURES)).astype(np.float32)
        yield x, x @ slope + 0.5 + random.normal(scale=0.01, size=BATCH).astype(np.float32)


class Announce(tf.train.SessionRunHook):
    """Prints the step from which training goes on: at the start, and whenever a parameter server was lost."""

    def after_create_session(self, session, coord):
        self.step = session.run(tf.train.get_global_step())
        print(f"START step={self.step}", flush=True)


def build(sync, workers, is_chief):
    """The graph: returns its inputs, what to run in each step, and a hook of the optimizer's, if it has one."""
    x, y = tf.placeholder(tf.float32, [None, FEATURES]), tf.placeholder(tf.float32, [None])
    slope = tf.get_variable("slope", [FEATURES], initializer=tf.zeros_initializer())
    offset = tf.get_variable("offset", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean((tf.linalg.matvec(x, slope) + offset - y) ** 2)

    optimizer, hooks = tf.train.GradientDescentOptimizer(0.02), []
    if sync:  # a step is then one batch of every worker, averaged
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=workers, total_num_replicas=workers)
        hooks = [optimizer.make_session_run_hook(is_chief)]
    update = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    with tf.control_dependencies([update]):
        step = tf.train.get_global_step().read_value()
    return (x, y), (step, loss), hooks


def train(args, cluster, server):
    is_chief, me = args.task_index == 0, f"/job:worker/task:{args.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=cluster)):
        inputs, fetches, hooks = build(args.sync, cluster.num_tasks("worker"), is_chief)
    announce, step, loss = Announce(), 0, float("inf")
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=is_chief,
        checkpoint_dir=args.checkpoint_dir,
        save_checkpoint_steps=args.save_steps,
        hooks=[announce, tf.train.StopAtStepHook(last_step=args.steps), *hooks],
        # Without the filters a worker would wait for all others before it starts, and fail with any of them.
        config=tf.ConfigProto(device_filters=["/job:ps", me]),
        # Threads of the synchronous optimizer wait for gradients of a next step, and would be waited for two minutes.
        stop_grace_period_secs=1,
    ) as session:
        for batch in batches(seed=args.task_index):
            step, loss = session.run(fetches, dict(zip(inputs, batch)))
            if step % args.save_steps == 0:
                print(f"step={step} loss={loss:.5f}", flush=True)
            if session.should_stop():
                break
            time.sleep(args.pause)
    if step < args.steps:  # the session ends quietly when a queue of the synchronous optimizer was closed
        raise SystemExit(f"training was cut off at step {step}")
    print(f"RESULT step={step} loss={loss:.5f} resumed_from={announce.step}", flush=True)
    if loss > args.target:
        raise SystemExit(f"the loss is not below {args.target}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    hosts = lambda text: text.split(",")
    parser.add_argument("--ps_hosts", type=hosts, required=True, help="host:port of each parameter server, by commas")
    parser.add_argument("--worker_hosts", type=hosts, required=True, help="host:port of each worker, by commas")
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--sync", action="store_true", help="average the gradients of all workers in each step")
    parser.add_argument("--checkpoint_dir", required=True, help="a folder that outlives the processes")
    parser.add_argument("--save_steps", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target", type=float, default=0.1, help="fail unless the loss is below this at the end")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds to wait after a step, to have time to watch")
    args = parser.parse_args()

    cluster = tf.train.ClusterSpec({"ps": args.ps_hosts, "worker": args.worker_hosts})
    server = tf.train.Server(cluster, job_name=args.job_name, task_index=args.task_index)
    if args.job_name == "ps":
        server.join()  # for ever: the job's cleanPodPolicy ends it
    train(args, cluster, server)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
