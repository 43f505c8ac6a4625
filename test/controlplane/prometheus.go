// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
)

// FreeAddress is one of 127.0.0.1 on which nobody listens.
func FreeAddress() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0]), nil
}

// StartPrometheus runs bin/prometheus with a configuration file and returns its
// URL when it answers.
func (c *ControlPlane) StartPrometheus(ctx context.Context, configuration string) (string, error) {
	address, err := FreeAddress()
	if err != nil {
		return "", err
	}
	process, err := c.run("prometheus",
		"--config.file="+configuration,
		"--storage.tsdb.path="+filepath.Join(c.dir, "prometheus"),
		"--web.listen-address="+address,
	)
	if err != nil {
		return "", fmt.Errorf("%w (make bin/prometheus makes it)", err)
	}
	url := "http://" + address
	return url, c.Eventually(ctx, readyLimit, func(ctx context.Context) error {
		select {
		case <-process.Done():
			return fmt.Errorf("Prometheus has ended:\n%s", process.Tail()) //nolint:staticcheck // a name
		default:
		}
		return ready(ctx, url+"/-/ready")
	})
}

// ready is nil when the page says OK.
func ready(ctx context.Context, page string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body) // part of the complaint
		return fmt.Errorf("%s: %s %s", page, answer.Status, text)
	}
	return nil
}
