// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Options are what the page is about.
type Options struct {
	// Source is what is looked at, for the title.
	Source string
	// Taken is when it was; zero if the view may change or nobody knows.
	Taken time.Time
	// Levels are those of the scheduler's configuration.
	Levels []topology.Level
	// Look returns the present view and its version, or nil if the version is still
	// the known one. Versions begin with 1.
	Look func(known uint64) (version uint64, view *View, err error)
	// Live: the view may change.
	Live bool
	// Plan answers what a gang would get; nil: nobody can be asked.
	Plan func(ctx context.Context, ref Reference, preempt bool) (*Plan, error)
	// Drafts are manifests that Plan knows and the cluster does not have.
	Drafts []*unstructured.Unstructured
	// Names are those by which a browser may call the server, beside the names of
	// the loopback interface.
	Names []string
}

//go:embed web
var web embed.FS

// contentTypes are spelt out, since the table of the operating system may differ
// and a module of another type is not run.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// New is the handler. It changes nothing and knows only GET and HEAD.
func New(options Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, "index.html") })
	mux.HandleFunc("/{file}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, r.PathValue("file")) })
	mux.Handle("/api/state", sameOrigin(&states{options: options}))
	mux.Handle("/api/plan", sameOrigin(&plans{options: options, turn: make(chan struct{}, 1)}))
	return guard(mux, options.Names)
}

func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	data, err := web.ReadFile("web/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data) // the browser has gone
}

// plans answers /api/plan?kind=&namespace=&name=&preempt=true.
type plans struct {
	options Options
	turn    chan struct{} // one plan at a time: each takes all that a core gives
}

func (p *plans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	ref := Reference{Kind: query.Get("kind"), Namespace: query.Get("namespace"), Name: query.Get("name")}
	switch {
	case p.options.Plan == nil:
		http.Error(w, "this page makes no plans; kubectl tutti ui does", http.StatusNotFound)
		return
	case ref.Kind == "" || ref.Name == "":
		http.Error(w, "give kind, namespace and name", http.StatusBadRequest)
		return
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-r.Context().Done():
		return
	}
	// That there can be no plan is an answer too, and no failure of the request.
	answer := struct {
		*Plan
		Error string `json:"error,omitempty"`
	}{}
	var err error
	if answer.Plan, err = p.options.Plan(r.Context(), ref, query.Get("preempt") == "true"); err != nil {
		answer.Error = err.Error()
	}
	writeJSON(w, answer)
}

func writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, fmt.Sprintf("encoding the answer: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // the browser has gone
}
