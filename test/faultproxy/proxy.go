// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between a program and its API server. It passes
// requests on under the program's identity, counts those that write, and does to
// some what networks and busy API servers do: refuse them, or lose the answer
// after they have taken effect.
//
//	program ──http──> Proxy ──https, client certificate──> kube-apiserver
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is one such proxy.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mu     sync.Mutex
	next   func(*http.Request) Fault
	writes map[string]int
	faults int
}

// New starts a proxy to the API server of a configuration, under its identity.
// next decides what becomes of each request; nil harms none. It is called by one
// request at a time.
func New(config *rest.Config, next func(*http.Request) Fault) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	p := &Proxy{next: next, writes: map[string]int{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,                         // watches
		ErrorLog:      log.New(io.Discard, "", 0), // of watches that end early
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			// A client that has gone needs no answer.
			if !errors.Is(err, context.Canceled) {
				w.WriteHeader(http.StatusBadGateway)
			}
		},
	}
	p.server = httptest.NewServer(p)
	return p, nil
}

// Close ends the proxy and every connection through it. A program that still runs
// connects again at once, so connections are cut once there can be no new ones,
// and until the last has ended.
func (p *Proxy) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.server.Close()
	}()
	for {
		select {
		case <-closed:
			return
		case <-time.After(cutEvery):
			p.server.CloseClientConnections()
		}
	}
}

const cutEvery = 10 * time.Millisecond

// Kubeconfig writes a file that leads a program to the proxy.
func (p *Proxy) Kubeconfig(path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: p.server.URL}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*config, path)
}

// Writes is how many requests to change something came for each resource.
func (p *Proxy) Writes() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.writes)
}

// Faults is how many requests were refused or lost their answer.
func (p *Proxy) Faults() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.judge(r)
	switch fault.kind {
	case works:
		p.forward.ServeHTTP(w, r)
	case refused:
		fault.answer(w)
	case answerLost:
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		fault.answer(w)
	case connectionLost:
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	case endsEarly:
		ctx, cancel := context.WithTimeout(r.Context(), fault.after)
		defer cancel()
		p.forward.ServeHTTP(w, r.WithContext(ctx))
	}
}

func (p *Proxy) judge(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodGet {
		p.writes[resourceOf(r.URL.Path)]++
	}
	if p.next == nil {
		return Fault{}
	}
	fault := p.next(r)
	if fault.kind != works && fault.kind != endsEarly {
		p.faults++
	}
	return fault
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	connection, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, as of a process that died
	}
	_ = connection.Close()
}

// IsWatch tells a watch from other requests.
func IsWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// resourceOf is the resource in a path: /api/v1/namespaces/n/pods/p and
// /apis/kubeflow.org/v1/namespaces/n/tfjobs/j/status are pods and tfjobs.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api, version
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) > skip+2 && parts[skip] == "namespaces" {
		skip += 2
	}
	if len(parts) <= skip {
		return path
	}
	return parts[skip]
}

// ConfigFromFile is the configuration of a kubeconfig file, without a limit on
// requests.
func ConfigFromFile(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.Timeout = -1, -1, 0
	return config, nil
}
