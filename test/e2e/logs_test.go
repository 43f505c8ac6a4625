// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// logs keeps what every container of a namespace prints, in a file each, also
// when the pod is gone since.
type logs struct {
	source typedcorev1.PodInterface
	folder string

	readers sync.WaitGroup
	mu      sync.Mutex
	files   map[string][]string // by pod name, the oldest container first
	known   map[string]bool     // by container ID
}

// run looks for new containers until ctx ends.
func (l *logs) run(ctx context.Context) {
	defer l.readers.Wait()
	for ctx.Err() == nil {
		// An API server that does not answer now does later.
		if pods, err := l.source.List(ctx, metav1.ListOptions{}); err == nil {
			for _, pod := range pods.Items {
				for _, status := range pod.Status.ContainerStatuses {
					l.see(ctx, &pod, status)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// see starts a reader for each container of a pod that has none yet.
func (l *logs) see(ctx context.Context, pod *corev1.Pod, status corev1.ContainerStatus) {
	if ended := status.LastTerminationState.Terminated; ended != nil {
		l.keep(ctx, pod, ended.ContainerID, status.RestartCount-1, corev1.PodLogOptions{Container: status.Name, Previous: true})
	}
	if status.State.Running != nil || status.State.Terminated != nil {
		l.keep(ctx, pod, status.ContainerID, status.RestartCount, corev1.PodLogOptions{Container: status.Name, Follow: true})
	}
}

func (l *logs) keep(ctx context.Context, pod *corev1.Pod, id string, restarts int32, options corev1.PodLogOptions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[id] {
		return
	}
	l.known[id] = true
	path := filepath.Join(l.folder, fmt.Sprintf("%s.%s.%s.%d.log", pod.Name, options.Container, pod.UID[:4], restarts))
	l.files[pod.Name] = append(l.files[pod.Name], path)
	l.readers.Go(func() {
		for l.read(ctx, pod, id, path, options) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pollInterval):
			}
		}
	})
}

// read copies one container's output, from where the file ends. It is to be
// called again when the connection has ended before the container has.
func (l *logs) read(ctx context.Context, pod *corev1.Pod, id, path string, options corev1.PodLogOptions) (again bool) {
	stream, err := l.source.GetLogs(pod.Name, &options).Stream(ctx)
	if err == nil {
		defer stream.Close()
		if err = appendRest(path, stream); err == nil && options.Previous {
			return false
		}
	}
	now, err := l.source.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return ctx.Err() == nil
	}
	for _, status := range now.Status.ContainerStatuses {
		if status.ContainerID == id && status.State.Running != nil {
			return true
		}
	}
	return false
}

// appendRest leaves out of a stream what the file has already.
func appendRest(path string, stream io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, stream, info.Size()); err != nil {
		return err
	}
	_, err = io.Copy(file, stream)
	return err
}

// printed returns the captures of every match in the output of a pod's
// containers, of former pods of that name too.
func (l *logs) printed(pod, pattern string) [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found [][]string
	for _, path := range l.files[pod] {
		// A file that is not there yet has no matches yet.
		text, _ := os.ReadFile(path)
		found = append(found, regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)...)
	}
	return found
}
