// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// click and keys act as a user does.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) keys(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

func (b *tab) text(selector string) string {
	b.Helper()
	return eval[string](b, "document.querySelector('"+selector+"').innerText")
}

func (b *tab) shows(selector string, want ...string) {
	b.Helper()
	for _, text := range want {
		if got := b.text(selector); !strings.Contains(got, text) {
			b.Errorf("%s shows\n%s\nwant %q", selector, got, text)
		}
	}
}

func TestPageShowsTheFabric(t *testing.T) {
	b := look(t, serve(t, "--snapshot", small().write(t)), 1280, 800)
	b.shows("#totals", "409 of 512 GPUs in use", "94 free", "64 hosts", "1 closed", "2 gangs wait")
	b.shows("#status", "snapshot 2026-11-30 06:00 UTC")
	b.shows("#groups", "gpt-pretrain", "48 GPUs", "room for 4 of 6 worker", "resnet-large", "vision · 16 pods on 16 hosts", "diffusion-queued")
	b.shows("#legend", "free", "closed to pods", "NVLink")
	// The map is drawn and all of it is seen: colours of gangs lie where the layout says.
	if different := eval[int](b, `(() => {
		const c = document.getElementById("map"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
		for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return ["0072b2", "e69f00", "009e73", "cc79a7", "56b4e9", "d55e00", "f0e442"].filter((h) => seen.has(parseInt(h, 16))).length;
	})()`); different != 7 {
		t.Errorf("%d of 7 colours are on the map", different)
	}
	b.shot("fabric")
	// Another window: the map is arranged anew, and all that it says is still known.
	b.do(chromedp.EmulateViewport(900, 700))
	b.until("the map has the new size", "window.tutti.map.width < 600")
	time.Sleep(300 * time.Millisecond) // it waits for the size to settle
	if !eval[bool](b, "window.tutti.map.layout.boxes.every((box) => box.free >= 0)") {
		t.Error("free devices are not counted after the window has changed")
	}
	b.shot("fabric-900")
	b.do(chromedp.EmulateViewport(700, 900))
	time.Sleep(300 * time.Millisecond)
	b.shot("fabric-700")
	b.do(chromedp.EmulateViewport(1280, 800))
	time.Sleep(300 * time.Millisecond)
	b.do(dark(true))
	b.shot("fabric-dark")
}

func TestPageExplainsAWaitingGang(t *testing.T) {
	b := look(t, serve(t, "--snapshot", small().write(t)), 1280, 800)
	b.click(`[data-key="PodGroup/nlp/gpt-pretrain"]`)
	b.shows("#details", "PodGroup in namespace nlp", "room for 4 of 6 worker", "48", "required-topology: rack")
	b.click("#ask")
	b.until("the scheduler has answered", "document.querySelector('#plan .message')")
	b.shows("#plan", "It would wait", "without tutti.dev/required-topology it would start")
	b.shot("waiting")
}

func TestPageShowsWhatAGangWouldGet(t *testing.T) {
	b := look(t, serve(t, "--snapshot", small().write(t)), 1280, 800)
	b.click(`[data-key="TFJob/research/diffusion-queued"]`)
	b.click("#ask")
	b.until("the scheduler has answered", "document.querySelector('#plan .message')")
	b.shows("#plan", "It would start", "diffusion-queued-worker-0", "rack r4")
	if devices := eval[int](b, "[...window.tutti.map.plan.devices.values()].reduce((n, d) => n + d.size, 0)"); devices != 32 {
		t.Errorf("%d devices are marked on the map, want 32", devices)
	}
	b.shot("plan")
	b.keys(kb.Escape)
	if eval[bool](b, "window.tutti.map.plan !== null || !document.getElementById('details').hidden") {
		t.Error("Escape leaves the plan on the map")
	}
}

// TestPageTellsWhatDraftsWouldDo: one that is suspended, as if it were resumed, and one that the controller would refuse.
func TestPageTellsWhatDraftsWouldDo(t *testing.T) {
	drafts := &fabric{}
	drafts.job("research", "paused", 2, 8)
	drafts.job("research", "empty", 0, 8)
	drafts.change("TFJob", "empty", func(job object) { delete(job["spec"].(object), "runPolicy") })
	b := look(t, serve(t, "--snapshot", small().write(t), "-f", drafts.write(t)), 1280, 800)
	for name, want := range map[string][]string{
		"paused": {"It would start", "paused-worker-1"},
		"empty":  {"It would fail", "nothing would ever run"},
	} {
		b.click(`[data-key="draft/TFJob/research/` + name + `"]`)
		b.click("#ask")
		b.until("the scheduler has answered", "document.querySelector('#plan .message')")
		b.shows("#plan", want...)
		b.keys(kb.Escape)
	}
}

// TestKeyboardAlone goes the whole way without a pointer.
func TestKeyboardAlone(t *testing.T) {
	b := look(t, serve(t, "--snapshot", small().write(t)), 1280, 800)
	focused := func(want string) {
		t.Helper()
		if got := eval[string](b, "document.activeElement.id || document.activeElement.dataset.key || document.activeElement.tagName"); got != want {
			t.Fatalf("the focus is on %s, want %s", got, want)
		}
	}
	b.keys("\t")
	focused("map")
	b.keys(kb.ArrowDown, kb.ArrowDown, kb.ArrowRight)
	b.shows("#announce", "n0010, spine s1, rack r2: 0 of 8 GPUs free; resnet-large")
	b.shot("keyboard")
	b.keys("\r")
	b.shows("#details", "n0010", "NVLink sets", "0 1 2 3 4 5 6 7", "resnet-large")
	b.shot("host")
	b.keys(kb.Escape)
	focused("map")
	before := eval[float64](b, "window.tutti.map.layout.scale")
	b.keys("+")
	if after := eval[float64](b, "window.tutti.map.layout.scale"); after <= before {
		t.Errorf("+ takes the scale from %g to %g", before, after)
	}
	b.keys("0")
	if after := eval[float64](b, "window.tutti.map.layout.scale"); after != before {
		t.Errorf("0 takes the scale to %g, want %g", after, before)
	}
	b.keys("/")
	focused("filter")
	b.keys("t", "t", "s", "\t")
	focused("PodGroup/speech/tts")
	b.keys("\r")
	focused("H2")
	b.shows("#details", "15", "3 pods")
	b.keys(kb.Escape)
	focused("PodGroup/speech/tts")
	if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("what has the focus is outlined %q", outline)
	}
}

// TestHostileNames: names with markup are shown as they are.
func TestHostileNames(t *testing.T) {
	f := newFabric(1, 1, 2)
	const name = `<img src=x onerror="document.title='owned'">`
	f.gang("<b>ns</b>", name, 2, 8, 0, "")
	f.gang("<b>ns</b>", name+"2", 2, 8, -1, "<script>document.title='owned'</script>")
	b := look(t, serve(t, "--snapshot", f.write(t)), 1280, 800)
	b.shows("#groups", name, "<script>document.title='owned'</script>")
	b.click("#groups .gang")
	b.shows("#details", name)
	if eval[bool](b, `document.title === "owned" || document.querySelectorAll("#panel img, #panel script, #panel b").length > 0`) {
		t.Error("a name has become markup")
	}
}

// TestThousandsOfHosts measures; how long things may take is not judged here, since
// that depends on the machine, but what is drawn is.
func TestThousandsOfHosts(t *testing.T) {
	start := time.Now()
	address := serve(t, "--snapshot", large().write(t))
	t.Logf("reading the snapshot: %v", time.Since(start).Round(time.Millisecond))
	b := look(t, address, 1280, 800)
	t.Logf("first paint %.0f ms after the request, the map %.0f ms; state: %.0f kB sent",
		eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`),
		eval[float64](b, `performance.getEntriesByName("map")[0].startTime`),
		eval[float64](b, `performance.getEntriesByType("resource").find((r) => r.name.endsWith("api/state")).encodedBodySize / 1000`))
	b.shows("#totals", "5000 hosts")
	b.shot("hosts-5000")
	b.do(dark(true))
	b.shot("hosts-5000-dark")
	b.do(dark(false))
	for _, action := range []struct{ name, script string }{
		{"arranging anew", "m.rearrange()"},
		{"drawing all", "m.redraw()"},
		{"moving", "(m.x += 7, m.clamp(), m.redraw())"},
		{"zooming", "m.zoom(1.1, 300, 300)"},
		{"a step of the cursor", "m.step(1, 0)"},
		{"choosing a gang", `document.querySelectorAll("#groups .gang")[i % 50 + 40].click()`},
	} {
		// From the action to the end of the next frame, of which the browser makes 60 a second.
		t.Logf("%-22s median %.1f ms", action.name, eval[float64](b, `(async () => {
			const m = window.tutti.map, took = [];
			for (let i = 0; i < 21; i++) {
				const start = performance.now();
				`+action.script+`;
				const acted = performance.now() - start;
				await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
				took.push(acted + m.painted);
			}
			return took.sort((a, b) => a - b)[10];
		})()`))
	}
	b.shot("hosts-5000-gang")
	b.keys(kb.Escape)
	b.do(chromedp.Focus(chromedp.CSS("#map")))
	for range 8 {
		b.keys("+")
	}
	b.shot("hosts-5000-zoomed")
}
