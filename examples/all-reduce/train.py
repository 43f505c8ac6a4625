# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0
"""Synchronous training with tf.distribute's MultiWorkerMirroredStrategy, told who is who by TF_CONFIG.

All processes are workers with a copy of the model each; in each step they average what they have learnt (all-reduce).
When one is lost, all fail. Started again, they go on from the last checkpoint, which worker 0 has written.
"""

import argparse
import tempfile
import time

import tensorflow as tf

FEATURES, BATCH = 8, 32


class Model(tf.Module):
    """A linear function, to be learnt from noisy samples of another."""

    def __init__(self):
        # What the workers assign is averaged over them.
        self.slope = tf.Variable(tf.zeros(FEATURES), aggregation=tf.VariableAggregation.MEAN)
        self.offset = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint_dir", required=True, help="a folder that outlives the processes and that all see")
    parser.add_argument("--save_steps", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target", type=float, default=0.1, help="fail unless the loss is below this at the end")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds to wait after a step, to have time to watch")
    args = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # waits until all are there
    with strategy.scope():
        model = Model()
    checkpoint = tf.train.Checkpoint(model=model)
    last = tf.train.latest_checkpoint(args.checkpoint_dir)
    if last:
        checkpoint.restore(last)
    first = int(model.step.numpy())
    print(f"START step={first}", flush=True)

    # All have to take part in saving; only what worker 0 writes is kept.
    is_chief = strategy.cluster_resolver.task_id == 0
    folder = args.checkpoint_dir if is_chief else tempfile.mkdtemp()
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=3)

    @tf.function
    def step():
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(model.train), axis=None)

    loss = model.loss()
    while model.step < args.steps:
        loss = step()
        if model.step % args.save_steps == 0:
            print(f"step={model.step.numpy()} loss={loss:.5f}", flush=True)
            manager.save(checkpoint_number=model.step.numpy())
        time.sleep(args.pause)
    print(f"RESULT step={model.step.numpy()} loss={loss:.5f} resumed_from={first}", flush=True)
    if loss > args.target:
        raise SystemExit(f"the loss is not below {args.target}")


if __name__ == "__main__":
    main()
