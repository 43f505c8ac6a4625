// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
)

// applicationXids are errors of the program that ran, not of the GPU: NVIDIA's own device plugin
// passes them over too.
var applicationXids = []uint64{13, 31, 43, 45, 68, 109}

// recoveryActions are what the driver asks for before the GPU can be used again.
var recoveryActions = map[int]string{
	1: "a reset of the GPU", 2: "a restart of the node", 3: "an end of peer-to-peer traffic", 4: "an end of its work and a reset of the GPU",
	5: "a recovery of the IMEX domain", 6: "a reset of its bus", 7: "a restart of the machine",
}

// notAvailable is what NVML answers for a number that it does not have.
const notAvailable = math.MaxUint32

// ailment is why a GPU must get no pod, or nil. Questions that its driver cannot answer are no
// reason.
func ailment(e entry) *v1alpha1.UnhealthyGPU {
	ill := func(reason, format string, args ...any) *v1alpha1.UnhealthyGPU {
		return &v1alpha1.UnhealthyGPU{UUID: e.gpu.UUID, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	_, named := e.device.UUID()
	action, ret := e.device.RecoveryAction()
	errors, counted := e.device.UncorrectedErrors()
	failed, mapped := e.device.RowRemapFailed()
	pending, retired := e.device.RetiredPagesPending()
	f, joined := e.device.Fabric()
	answers := []Return{named, ret, counted, mapped, retired, joined}
	if i := slices.IndexFunc(answers, Return.isLost); i >= 0 {
		return ill(answers[i].reason(), "%s", answers[i].message())
	}
	switch {
	case named != Success:
		return ill(named.reason(), "%s", named.message())
	case ret == Success && action != 0 && action != notAvailable:
		return ill("RecoveryNeeded", "the driver asks for %s", cmp.Or(recoveryActions[action], fmt.Sprintf("recovery action %d", action)))
	// The recovery action knows which memory errors were contained; before it, all count.
	case ret != Success && counted == Success && errors > 0 && errors != math.MaxUint64:
		return ill("UncorrectedECC", "%d uncorrected memory errors since the driver was loaded: reset the GPU", errors)
	case mapped == Success && failed:
		return ill("RowRemapFailed", "a faulty row of memory could not be replaced: replace the GPU")
	case retired == Success && pending:
		return ill("RetiredPagesPending", "faulty pages of memory are in use until a reset of the GPU")
	case joined == Success:
		return fabricAilment(f, ill)
	}
	return nil
}

// fabricAilment: without its fabric a GPU of a board with switches cannot run CUDA.
func fabricAilment(f Fabric, ill func(string, string, ...any) *v1alpha1.UnhealthyGPU) *v1alpha1.UnhealthyGPU {
	switch {
	case f.State == FabricInProgress:
		return ill("FabricNotReady", "the NVLink fabric is not set up yet: is the fabric manager running?")
	case f.State == FabricCompleted && f.Status != Success:
		return ill("FabricFailed", "the NVLink fabric could not be set up (NVML result %d): see the fabric manager's log", int(f.Status))
	}
	return nil
}

// eventAilment is why a GPU that reported an error must get no pod, or nil. One that cannot say its
// name any more polling sees.
func eventAilment(event Event) *v1alpha1.UnhealthyGPU {
	if event.UUID == "" || slices.Contains(applicationXids, event.Xid) {
		return nil
	}
	ill := &v1alpha1.UnhealthyGPU{UUID: event.UUID, Reason: "Xid", Message: fmt.Sprintf("the driver reported Xid %d: see the kernel's log; it counts until the agent restarts", event.Xid)}
	if event.Xid == 0 {
		ill.Reason, ill.Message = "UncorrectedECC", "the driver reported an uncorrected memory error; it counts until the agent restarts"
	}
	return ill
}
