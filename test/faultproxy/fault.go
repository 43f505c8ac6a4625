// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what becomes of a request. The zero value is that it works.
type Fault struct {
	kind   kind
	code   int
	reason metav1.StatusReason
	// retry is what the answer tells the client to wait; empty tells nothing.
	retry string
	after time.Duration
}

type kind int

const (
	works          kind = iota
	refused             // it has no effect
	answerLost          // it has its effect, and an error is answered
	connectionLost      // it has its effect, and nothing is answered
	endsEarly           // a watch ends after a while
)

// How long a watch lasts that ends early.
const (
	shortestWatch = 2 * time.Second
	longestWatch  = 20 * time.Second
)

// faults that a request may meet, all as likely.
var faults = []Fault{
	{kind: refused, code: http.StatusConflict, reason: metav1.StatusReasonConflict},
	{kind: refused, code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests},
	{kind: refused, code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, retry: "0"},
	{kind: refused, code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError},
	{kind: answerLost, code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError},
	{kind: answerLost, code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout},
	{kind: connectionLost},
}

// Refused is a request that has no effect and is answered with this error.
func Refused(code int, reason metav1.StatusReason) Fault {
	return Fault{kind: refused, code: code, reason: reason}
}

// AnswerLost is a request that has its effect and is answered with this error.
func AnswerLost(code int, reason metav1.StatusReason) Fault {
	return Fault{kind: answerLost, code: code, reason: reason}
}

// Random makes requests meet a fault with this probability; watches also end
// early.
func Random(rng *rand.Rand, probability float64) func(*http.Request) Fault {
	return func(r *http.Request) Fault {
		hit := rng.Float64() < probability
		fault := faults[rng.IntN(len(faults))]
		if !IsWatch(r) {
			if hit {
				return fault
			}
			return Fault{}
		}
		// What a watch loses is its connection.
		if hit && fault.kind == refused {
			return fault
		}
		return Fault{kind: endsEarly, after: shortestWatch + time.Duration(rng.Int64N(int64(longestWatch-shortestWatch)))}
	}
}

func (f Fault) answer(w http.ResponseWriter) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(f.code),
		Reason:   f.reason,
		Message:  "a fault was asked for",
	}
	w.Header().Set("Content-Type", "application/json")
	if f.retry != "" {
		w.Header().Set("Retry-After", f.retry)
	}
	w.WriteHeader(f.code)
	_ = json.NewEncoder(w).Encode(status) // a client that has gone needs no answer
}
