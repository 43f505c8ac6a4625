// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Serving is where a program shows its health and its metrics, and to whom.
type Serving struct {
	HealthAddress  string
	MetricsAddress string
	MetricsSecure  bool
	CertFile       string
	KeyFile        string
}

// DefaultServing is that of programs that are alone in their network namespace.
func DefaultServing() Serving {
	return Serving{HealthAddress: ":8081", MetricsAddress: ":8080", MetricsSecure: true}
}

// AddFlags adds a flag for each field, with its value as the default.
func (s *Serving) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.HealthAddress, "health-probe-bind-address", s.HealthAddress, "Where /healthz and /readyz are served. Empty or 0 turns them off.")
	flags.StringVar(&s.MetricsAddress, "metrics-bind-address", s.MetricsAddress, "Where /metrics is served. Empty or 0 turns it off.")
	flags.BoolVar(&s.MetricsSecure, "metrics-secure", s.MetricsSecure,
		"Serve /metrics encrypted, and only to those whom the API server lets get that path. False serves it plain to everybody.")
	flags.StringVar(&s.CertFile, "metrics-cert-file", s.CertFile,
		"File with the certificate for /metrics; it may be renewed at any time. Empty means one that the process signs itself.")
	flags.StringVar(&s.KeyFile, "metrics-key-file", s.KeyFile, "File with the key of that certificate.")
}

// Validate says which flags contradict each other.
func (s *Serving) Validate() error {
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("--metrics-cert-file and --metrics-key-file need each other")
	}
	return nil
}

// ServeProbes answers /healthz and /readyz until ctx is done; each check says what is the matter, or nil. An address that cannot be
// had is an error at once.
func (s *Serving) ServeProbes(ctx context.Context, healthy func(*http.Request) error, ready func() error) error {
	probes := http.NewServeMux()
	probes.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answer(w, healthy(r)) })
	probes.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, ready()) })
	return listen(ctx, s.HealthAddress, nil, probes)
}

// ServeMetrics answers /metrics until ctx is done: to everybody only where the administrator says so. The process is called name in
// the certificate that it signs itself.
func (s *Serving) ServeMetrics(ctx context.Context, config *rest.Config, name string) error {
	if isOff(s.MetricsAddress) {
		return nil
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", legacyregistry.Handler())
	if !s.MetricsSecure {
		return listen(ctx, s.MetricsAddress, nil, metrics)
	}
	handler, err := guard(metrics, config)
	if err != nil {
		return err
	}
	encryption, err := s.encrypted(name)
	if err != nil {
		return err
	}
	return listen(ctx, s.MetricsAddress, encryption, handler)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func isOff(address string) bool { return address == "" || address == "0" }

func listen(ctx context.Context, address string, encryption *tls.Config, handler http.Handler) error {
	if isOff(address) {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving probes or metrics: %w", err)
	}
	if encryption != nil {
		listener = tls.NewListener(listener, encryption)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving ended", "address", address)
		}
	}()
	return nil
}
