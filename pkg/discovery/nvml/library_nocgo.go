// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package nvml

import "github.com/tutti-project/tutti/pkg/discovery"

// Open says that this program was built without the way to the driver.
func Open() (Library, error) {
	return nil, discovery.Unavailablef("BuiltWithoutCgo", "this program was built with CGO_ENABLED=0 and cannot ask the driver: build it with CGO_ENABLED=1")
}
