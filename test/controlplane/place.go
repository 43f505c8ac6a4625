// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Ports are taken from below the range that Linux gives to outgoing
// connections, or a client could get one between our look and the server's.
const (
	firstPort = 20000
	lastPort  = 32000
	portTries = 200
)

// freePorts finds n ports of 127.0.0.1 on which nobody listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer listener.Close() // held until all are found: they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free port on 127.0.0.1")
}

// moduleRoot is the nearest folder upwards that holds a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = parent
	}
}

// fileName is a user's name without the characters that trouble in paths.
func fileName(user string) string {
	return strings.NewReplacer(":", "-", "/", "-").Replace(user)
}
