// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package nvml

import "github.com/tutti-project/tutti/pkg/discovery"

// CanAsk tells whether this program was built with the way to the driver.
const CanAsk = false

// Open says that this program was built without the way to the driver.
func Open(string) (Library, error) {
	return nil, discovery.Unavailablef("BuiltWithoutCgo", "this program was built with CGO_ENABLED=0 and cannot ask the driver: the image and \"make agent\" have one that can")
}
