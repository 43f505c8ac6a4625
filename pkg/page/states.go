// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// states answers /api/state. Who has the present state already gets 304; the state
// is drawn anew only if the view has changed.
type states struct {
	options Options

	mu      sync.Mutex
	version uint64
	etag    string
	plain   []byte
	zipped  []byte
}

func (s *states) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	etag, plain, zipped, err := s.present()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("ETag", etag)
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	body := plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = zipped
	}
	_, _ = w.Write(body) // the browser has gone
}

func (s *states) present() (etag string, plain, zipped []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, view, err := s.options.Look(s.version)
	if err != nil {
		return "", nil, nil, err
	}
	if view != nil {
		if err := s.draw(view); err != nil {
			return "", nil, nil, err
		}
		s.version = version
	}
	return s.etag, s.plain, s.zipped, nil
}

// draw encodes the view. What has changed in it need not show, so the tag is that
// of the text.
func (s *states) draw(view *View) error {
	state := Of(view, s.options.Levels)
	state.Source, state.Live, state.Plans = s.options.Source, s.options.Live, s.options.Plan != nil
	if !s.options.Taken.IsZero() {
		state.Taken = s.options.Taken.UTC().Format("2006-01-02 15:04 MST")
	}
	for _, o := range s.options.Drafts {
		state.Drafts = append(state.Drafts, draftOf(o, state.Resource))
	}
	plain, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if bytes.Equal(plain, s.plain) {
		return nil
	}
	var zipped bytes.Buffer
	zip, err := gzip.NewWriterLevel(&zipped, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := zip.Write(plain); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	s.plain, s.zipped = plain, zipped.Bytes()
	s.etag = fmt.Sprintf(`"%x"`, sha256.Sum256(plain))
	return nil
}
