// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const lockName = "lock"

// claim makes the folder anew, unless another demo holds it. What a demo that
// was killed has left there goes away; any other folder is left alone.
func claim(dir string) (release func(), err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			return nil, fmt.Errorf("%s is not empty and no demo made it", dir)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("a demo is running in %s already", dir)
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			lock.Close()
			return nil, err
		}
	}
	return func() { lock.Close() }, nil
}

// sweep removes the folder and checks that no process of the demo is left.
func sweep(out *screen, dir string) error {
	left, err := inhabitants(dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("processes are left: %s", strings.Join(left, ", "))
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	out.line("Everything is stopped and %s is removed.", relative(dir))
	return nil
}

// inhabitants are the processes whose home is the folder: all that the control
// plane starts, and nobody else.
func inhabitants(dir string) ([]string, error) {
	homes, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range homes {
		environ, err := os.ReadFile(path)
		if err != nil { // gone meanwhile, or not ours
			continue
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if string(variable) == "HOME="+dir {
				command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
				found = append(found, filepath.Base(filepath.Dir(path))+" "+strings.TrimSpace(string(command)))
			}
		}
	}
	return found, nil
}

// since is a duration as people read it.
func since(start time.Time) string {
	return fmt.Sprintf("%.2f s", time.Since(start).Seconds())
}
