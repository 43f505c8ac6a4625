# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0
"""Asynchronous training with tf.distribute's ParameterServerStrategy, told who is who by TF_CONFIG.

The chief holds the program: it sends steps to the workers, which only serve, as the parameter servers do, and it writes
checkpoints. The evaluator stands apart and measures each checkpoint that it finds.
"""

import argparse
import json
import os
import time

import tensorflow as tf

FEATURES, BATCH = 8, 32


class Model(tf.Module):
    """A linear function, to be learnt from noisy samples of another."""

    def __init__(self):
        self.slope = tf.Variable(tf.zeros(FEATURES))
        self.offset = tf.Variable(0.0)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def loss(self):
        x = tf.random.normal([BATCH, FEATURES])
        y = tf.linalg.matvec(x, tf.linspace(-1.0, 1.0, FEATURES)) + 0.5 + tf.random.normal([BATCH], stddev=0.01)
        return tf.reduce_mean((tf.linalg.matvec(x, self.slope) + self.offset - y) ** 2)

    def train(self):
        with tf.GradientTape() as tape:
            loss = self.loss()
        for variable, gradient in zip(self.trainable_variables, tape.gradient(loss, self.trainable_variables)):
            variable.assign_sub(0.02 * gradient)
        self.step.assign_add(1)
        return loss


def lead(args, resolver):
    """The chief. When a worker is lost, its step is done by another. When a parameter server is lost, this fails: started
    again, it goes on from the last checkpoint."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), args.checkpoint_dir, max_to_keep=3)
    manager.restore_or_initialize()
    first = int(model.step.numpy())
    print(f"START step={first}", flush=True)

    @tf.function
    def step():
        return strategy.run(model.train)

    loss = float(model.loss())
    while model.step.numpy() < args.steps:
        losses = [coordinator.schedule(step) for _ in range(args.save_steps)]
        coordinator.join()
        loss = sum(float(value.fetch()) for value in losses) / len(losses)
        print(f"step={model.step.numpy()} loss={loss:.5f}", flush=True)
        manager.save(checkpoint_number=model.step.numpy())
        time.sleep(args.pause * args.save_steps)
    print(f"RESULT step={model.step.numpy()} loss={loss:.5f} resumed_from={first}", flush=True)
    if loss > args.target:
        raise SystemExit(f"the loss is not below {args.target}")


def evaluate(args):
    model = Model()
    checkpoint = tf.train.Checkpoint(model=model)
    for path in tf.train.checkpoints_iterator(args.checkpoint_dir):
        checkpoint.restore(path).expect_partial()
        print(f"EVALUATED step={model.step.numpy()} loss={model.loss().numpy():.5f}", flush=True)
        if model.step >= args.steps:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint_dir", required=True, help="a folder that outlives the processes")
    parser.add_argument("--save_steps", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target", type=float, default=0.1, help="fail unless the loss is below this at the end")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds to wait a step, to have time to watch")
    args = parser.parse_args()

    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    if role == "evaluator":
        return evaluate(args)
    config["cluster"].pop("evaluator", None)  # it is no part of what TensorFlow connects
    cluster = tf.train.ClusterSpec(config["cluster"])
    if role in ("ps", "worker"):
        tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc").join()
    lead(args, tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type=role, task_id=index, rpc_layer="grpc"))


if __name__ == "__main__":
    main()
