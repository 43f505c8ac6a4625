// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var (
	program = flag.String("program", filepath.Join("..", "..", "..", "bin", "kubectl-tutti"), "kubectl-tutti")
	shots   = flag.String("screenshots", "", "folder for screenshots; none are written without one")
)

// patience bounds each thing that is waited for.
const patience = 60 * time.Second

// serve runs kubectl tutti ui and returns the page's address.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), *program, append([]string{"ui"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make build makes it)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl tutti ui printed no address: %v", err)
	}
	address, _, _ := strings.Cut(line, " ")
	return address
}

// tab is one page in a browser of its own.
type tab struct {
	*testing.T
	ctx    context.Context
	origin string

	mu         sync.Mutex
	complaints []string
	requests   []string
	answers    map[int64]int // to questions for the state, by status
}

// look opens the page. At the end of the test the page must have said nothing in
// the console and asked nobody but its own server.
func look(t *testing.T, address string, width, height int64, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	options := chromedp.DefaultExecAllocatorOptions[:]
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &tab{T: t, ctx: ctx, origin: strings.TrimSuffix(address, "/"), answers: map[int64]int{}}
	t.Cleanup(func() {
		b.check()
		cancel() // ends the browser
		stop()
	})
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	b.do(call(network.Enable, network.EnableParams{}), call(cdplog.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}), chromedp.EmulateViewport(width, height))
	b.do(before...)
	b.do(chromedp.Navigate(address))
	b.until("the map is drawn", "window.tutti?.map.painted >= 0")
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value))
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *cdplog.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventResponseReceived:
		if strings.HasSuffix(e.Response.URL, "/api/state") {
			b.answers[e.Response.Status]++
		}
	}
}

// count is how many answers for the state had this status.
func (b *tab) count(status int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers[status]
}

func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		b.Errorf("the page complains: %s", complaint)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, b.origin+"/") {
			b.Errorf("the page asks %s", url)
		}
	}
	if len(b.requests) == 0 {
		b.Error("no request was seen")
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// eval is the value of an expression, awaited if it is a promise.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits for an expression to be true.
func (b *tab) until(what, expression string) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for !eval[bool](b, "Boolean("+expression+")") {
		if time.Now().After(deadline) {
			b.Fatalf("not so after %v: %s\n%s", patience, what, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// dark turns the preference for a dark page on or off.
func dark(on bool) chromedp.Action[chromedp.Void] {
	value := "light"
	if on {
		value = "dark"
	}
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
}
