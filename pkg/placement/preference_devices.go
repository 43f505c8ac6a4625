// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// freeDevices fills hosts that are nearly full first.
func freeDevices(o offer) int64 { return o.devices }
