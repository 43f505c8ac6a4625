// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// serveProbes answers /healthz and /readyz until ctx is done. An address that cannot be had is an error at once.
func serveProbes(ctx context.Context, o *options, isReady func() bool, watchdog *leaderelection.HealthzAdaptor) error {
	probes := http.NewServeMux()
	probes.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, watchdog.Check(r))
	})
	probes.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if !isReady() {
			err = errors.New("the caches are being filled")
		}
		answer(w, err)
	})
	return listen(ctx, o.healthAddress, nil, probes)
}

// serveMetrics answers /metrics until ctx is done: to everybody only where the administrator says so.
func serveMetrics(ctx context.Context, o *options, config *rest.Config) error {
	if isOff(o.metricsAddress) {
		return nil
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", legacyregistry.Handler())
	if !o.metricsSecure {
		return listen(ctx, o.metricsAddress, nil, metrics)
	}
	handler, err := guard(metrics, config)
	if err != nil {
		return err
	}
	encryption, err := encrypted(o)
	if err != nil {
		return err
	}
	return listen(ctx, o.metricsAddress, encryption, handler)
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
