// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"
)

func TestThePictureIsWhatThePlannerSays(t *testing.T) {
	drawn, err := os.ReadFile("../../docs/images/wishes.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, picture()) {
		t.Error("the planner decides otherwise than docs/images/wishes.svg shows: go run ./hack/pictures docs/images/wishes.svg")
	}
}
