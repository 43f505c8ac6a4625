// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
	"github.com/tutti-project/tutti/pkg/topology"
)

// server answers as kubectl tutti ui does; next is what Look says.
type server struct {
	*testing.T
	handler http.Handler
	version uint64
	view    *View
}

func newServer(t *testing.T, change func(*Options)) *server {
	t.Helper()
	s := &server{T: t, version: 1}
	s.look(cluster)
	options := Options{Source: "here", Levels: topology.DefaultLevels(), Look: func(known uint64) (uint64, *View, error) {
		if known == s.version {
			return known, nil, nil
		}
		return s.version, s.view, nil
	}}
	if change != nil {
		change(&options)
	}
	s.handler = New(options)
	return s
}

func (s *server) look(lines string) {
	s.Helper()
	view, err := ViewOf(sketch.Cluster(s.T, lines))
	if err != nil {
		s.Fatal(err)
	}
	s.view = view
}

// get asks as a browser does; headers are name, value, name, value ….
func (s *server) get(path string, headers ...string) *httptest.ResponseRecorder {
	return s.ask(http.MethodGet, path, headers...)
}

func (s *server) ask(method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func TestUnchangedStateIsNotSentAgain(t *testing.T) {
	s := newServer(t, nil)
	first := s.get("/api/state")
	tag := first.Header().Get("ETag")
	if first.Code != http.StatusOK || tag == "" {
		t.Fatalf("%d, ETag %q", first.Code, tag)
	}
	again := func(when string, want int) {
		t.Helper()
		if w := s.get("/api/state", "If-None-Match", tag); w.Code != want || want == http.StatusNotModified && w.Body.Len() > 0 {
			t.Errorf("%s: %d with %d bytes, want %d", when, w.Code, w.Body.Len(), want)
		}
	}
	again("nothing has changed", http.StatusNotModified)
	s.version++
	again("what has changed does not show", http.StatusNotModified)
	s.version++
	s.look(cluster + "\npod one-more on=n2 gpus=1")
	again("a pod has come", http.StatusOK)
}

func TestStateIsCompressedForWhoeverTakesIt(t *testing.T) {
	s := newServer(t, nil)
	plain := s.get("/api/state")
	zipped := s.get("/api/state", "Accept-Encoding", "gzip, br")
	reader, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Body.String() != string(data) {
		t.Error("the compressed state is another")
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	s := newServer(t, nil)
	for _, path := range []string{"/", "/main.js", "/api/state", "/api/plan", "/nowhere"} {
		w := s.get(path)
		if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", path, policy)
		}
		for name, value := range headers {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", path, name, got, value)
			}
		}
	}
}

func TestWhoMayAsk(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Names = []string{"desk.example"} })
	for _, tc := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"the page", http.MethodGet, "/", nil, http.StatusOK},
		{"its head", http.MethodHead, "/", nil, http.StatusOK},
		{"by localhost", http.MethodGet, "/", []string{"Host", "localhost:1"}, http.StatusOK},
		{"by IPv6", http.MethodGet, "/", []string{"Host", "[::1]:1"}, http.StatusOK},
		{"by IPv6 without a port", http.MethodGet, "/", []string{"Host", "[::1]"}, http.StatusOK},
		{"by another loopback address", http.MethodGet, "/", []string{"Host", "127.8.8.8"}, http.StatusOK},
		{"by a name that was allowed", http.MethodGet, "/", []string{"Host", "Desk.example:80"}, http.StatusOK},
		{"by a rebound name", http.MethodGet, "/api/state", []string{"Host", "evil.example"}, http.StatusMisdirectedRequest},
		{"by a name that begins like ours", http.MethodGet, "/", []string{"Host", "localhost.evil.example"}, http.StatusMisdirectedRequest},
		{"by a name that begins like our address", http.MethodGet, "/", []string{"Host", "127.0.0.1.evil.example"}, http.StatusMisdirectedRequest},
		{"by an address of the network", http.MethodGet, "/", []string{"Host", "10.0.0.1"}, http.StatusMisdirectedRequest},
		{"by no name", http.MethodGet, "/", []string{"Host", ""}, http.StatusMisdirectedRequest},
		{"a write", http.MethodPost, "/api/state", nil, http.StatusMethodNotAllowed},
		{"a preflight", http.MethodOptions, "/api/plan", nil, http.StatusMethodNotAllowed},
		{"another site's page", http.MethodGet, "/api/plan?kind=TFJob&name=x", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"another server's page on this machine", http.MethodGet, "/api/state", []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{"the page itself", http.MethodGet, "/api/state", []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{"a link elsewhere", http.MethodGet, "/", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusOK},
		{"a file that is none", http.MethodGet, "/..%2fdoc.go", nil, http.StatusNotFound},
		{"the folder", http.MethodGet, "/web", nil, http.StatusNotFound},
	} {
		if w := s.ask(tc.method, tc.path, tc.headers...); w.Code != tc.want {
			t.Errorf("%s: %d, want %d: %s", tc.name, w.Code, tc.want, w.Body)
		}
	}
}

func TestPlans(t *testing.T) {
	var asked Reference
	s := newServer(t, func(o *Options) {
		o.Plan = func(_ context.Context, ref Reference, preempt bool) (*Plan, error) {
			asked = ref
			if ref.Name == "nobody" {
				return nil, errors.New("there is no such job")
			}
			return &Plan{Placed: preempt, Message: "placed"}, nil
		}
	})
	for path, want := range map[string]string{
		"/api/plan?kind=TFJob&namespace=a&name=b":              `{"placed":false,"message":"placed"}`,
		"/api/plan?kind=TFJob&namespace=a&name=b&preempt=true": `{"placed":true,"message":"placed"}`,
		"/api/plan?kind=TFJob&namespace=a&name=nobody":         `{"error":"there is no such job"}`,
	} {
		if got := s.get(path).Body.String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if want := (Reference{Kind: "TFJob", Namespace: "a"}); asked.Kind != want.Kind || asked.Namespace != want.Namespace {
		t.Errorf("asked for %v", asked)
	}
	if w := s.get("/api/plan?kind=TFJob"); w.Code != http.StatusBadRequest {
		t.Errorf("without a name: %d", w.Code)
	}
	if w := newServer(t, nil).get("/api/plan?kind=TFJob&name=x"); w.Code != http.StatusNotFound {
		t.Errorf("nobody to ask: %d", w.Code)
	}
}

// TestHostileNamesStayNames: what comes from objects is only ever data in JSON, of
// a type that no browser takes for a page.
func TestHostileNamesStayNames(t *testing.T) {
	s := newServer(t, nil)
	s.look(`object {apiVersion: v1, kind: Node, metadata: {name: "<script>alert(1)</script>", labels: {topology.tutti.dev/rack: "</title><img src=x onerror=alert(1)>"}}, status: {allocatable: {nvidia.com/gpu: "1"}}}
object {apiVersion: v1, kind: Pod, metadata: {name: "'\"><svg/onload=alert(1)>", namespace: ns}, spec: {nodeName: "<script>alert(1)</script>", containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}, status: {phase: Running}}`)
	w := s.get("/api/state")
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if strings.ContainsAny(w.Body.String(), "<>") {
		t.Errorf("there is markup in %s", w.Body)
	}
	var state State
	if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil || state.Hosts[0].Name != "<script>alert(1)</script>" {
		t.Errorf("%v: %+v", err, state)
	}
}

// TestPageLoadsOnlyItsOwnFiles: every file that one of them names is there, and
// none puts text into markup or names a place elsewhere.
func TestPageLoadsOnlyItsOwnFiles(t *testing.T) {
	s := newServer(t, nil)
	named := regexp.MustCompile(`(?:src|href)="([^"]+)"|from "([^"]+)"`)
	elsewhere := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style="|\son[a-z]+="|javascript:`)
	entries, err := fs.ReadDir(web, "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		w := s.get("/" + entry.Name())
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d, Content-Type %q", entry.Name(), w.Code, w.Header().Get("Content-Type"))
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			file := strings.TrimPrefix(match[1]+match[2], "./")
			if _, err := fs.Stat(web, "web/"+file); err != nil {
				t.Errorf("%s names %s: %v", entry.Name(), file, err)
			}
		}
		if found := elsewhere.FindString(text); found != "" {
			t.Errorf("%s names %s", entry.Name(), found)
		}
		if found := markup.FindString(text); found != "" {
			t.Errorf("%s has %s", entry.Name(), found)
		}
	}
}
