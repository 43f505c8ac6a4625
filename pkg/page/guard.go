// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// headers let the page load nothing from elsewhere, run no script but its own
// files, and be shown in no other page.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// guard answers reads only, and only to browsers that call the server by a name
// of this machine: a foreign page whose name has been made to resolve to it (DNS
// rebinding) calls it by that page's name.
func guard(next http.Handler, names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
		case !known(r.Host, names):
			http.Error(w, "this page does not answer to that name; call it by the address that kubectl tutti ui printed", http.StatusMisdirectedRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func known(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}

// sameOrigin keeps other sites' pages from asking: they could not read the answer,
// but each plan costs work. Programs that are no browser send no such header.
func sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "only this page itself may ask", http.StatusForbidden)
		}
	})
}
