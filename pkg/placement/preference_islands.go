// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// islandsBroken is how many pairs and quads of well-joined GPUs one pod breaks:
// as few as can be if the planner picks, else as many as the device plugin may.
func islandsBroken(o offer) int64 {
	if o.gpus.Model == nil {
		return 0
	}
	least, most := o.gpus.Model.Broken(o.gpus.Free, o.size)
	if o.gpus.PlannerPicks {
		return int64(least)
	}
	return int64(most)
}
