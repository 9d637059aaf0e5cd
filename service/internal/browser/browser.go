//go:build system

// Package browser drives a real Chromium in tests.
package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// patience bounds an action in the browser, and a wait for a change.
const patience = time.Minute

// A Tab is a page in a separate browser.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex // guards what follows
	errors   []string
	expected string // text of errors that are not recorded; empty: none
}

// Open opens url in a headless Chromium, which ends with the test. The test fails if
// there is no Chromium, and at its end, if the page has written an error to its console,
// thrown an exception, or failed to load an asset.
func Open(t testing.TB, url string, width, height int64) *Tab {
	t.Helper()
	return open(t, url, width, height)
}

// OpenUntrusted is like Open, for a server with a certificate that no authority known to Chromium has signed.
func OpenUntrusted(t testing.TB, url string, width, height int64) *Tab {
	t.Helper()
	return open(t, url, width, height, chromedp.Flag("ignore-certificate-errors", true))
}

func open(t testing.TB, url string, width, height int64, more ...chromedp.ExecAllocatorOption) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, kill := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	t.Cleanup(kill)
	ctx, _ = chromedp.NewContext(ctx)
	// The first action starts the browser, which lives as long as its context.
	if _, err := chromedp.Run(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("%v: make need installs Chromium on Debian, else install it yourself", err)
	}
	tab := &Tab{t: t, ctx: ctx}
	console := chromedp.Console(ctx) // records from now on
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range console {
			if err == nil && (m.IsException() || m.Type == "error") {
				tab.note(m.String())
			}
		}
	})
	t.Cleanup(func() {
		// A browser that is killed leaves a directory behind.
		ending, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := chromedp.Cancel(ending); err != nil {
			t.Errorf("the browser does not end: %v", err)
		}
		reading.Wait()
		for _, e := range tab.Errors() {
			t.Errorf("the page's console: %s", e)
		}
	})
	tab.do(chromedp.Navigate(url))
	return tab
}

// Expect lets the page have errors that contain a text, from now on: they are not among Errors.
func (tab *Tab) Expect(text string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.expected = text
}

// note records an error of the page, unless it is expected.
func (tab *Tab) note(e string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	if tab.expected == "" || !strings.Contains(e, tab.expected) {
		tab.errors = append(tab.errors, e)
	}
}

// WantError expects a single error of the page since the last call of Errors, which contains a text. It waits for it,
// because the browser reports it some time after the page knows.
func (tab *Tab) WantError(text string) {
	tab.t.Helper()
	var errors []string
	tab.Until("the console has an error with "+text, func() bool {
		errors = append(errors, tab.Errors()...)
		return len(errors) > 0
	})
	if len(errors) != 1 || !strings.Contains(errors[0], text) {
		tab.t.Errorf("the page's console: %q: want one error with %q", errors, text)
	}
}

// Errors returns the errors of the page since the last call.
func (tab *Tab) Errors() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	errors := tab.errors
	tab.errors = nil
	return errors
}

func (tab *Tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	for _, a := range actions {
		run(tab, a)
	}
}

func run[T any](tab *Tab, a chromedp.Action[T]) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		tab.t.Fatalf("in the browser: %v", err)
	}
	return v
}

func testid(id string) chromedp.CSS { return chromedp.CSS(fmt.Sprintf(`[data-testid=%q]`, id)) }

// Visit opens another page, and waits until it has loaded.
func (tab *Tab) Visit(url string) {
	tab.t.Helper()
	tab.do(chromedp.Navigate(url))
}

// Downloads lets the page save files in a directory.
func (tab *Tab) Downloads(dir string) {
	tab.t.Helper()
	tab.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir})
		return chromedp.Void{}, err
	})
}

// Click clicks the element with this data-testid.
func (tab *Tab) Click(id string) {
	tab.t.Helper()
	tab.do(chromedp.Click(testid(id)))
}

// Text returns the text of the element with this data-testid.
func (tab *Tab) Text(id string) string {
	tab.t.Helper()
	return strings.TrimSpace(run(tab, chromedp.Text(testid(id))))
}

// Pressed reports whether the button with this data-testid is shown as pressed.
func (tab *Tab) Pressed(id string) bool {
	tab.t.Helper()
	return run(tab, chromedp.AttributeValue(testid(id), "aria-pressed")).Value == "true"
}

// Evaluate returns the value of an expression in the page.
func Evaluate[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	return run(tab, chromedp.Evaluate[T](expression))
}

// Until waits until ok returns true. The test fails if that takes too long.
func (tab *Tab) Until(what string, ok func() bool) {
	tab.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tab.Screenshot("failed")
			tab.t.Fatalf("timed out while waiting until %s", what)
		}
	}
}

// View sets the size of the window, and the preference for a dark page.
func (tab *Tab) View(width, height int64, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.do(chromedp.EmulateViewport(width, height), func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}

// Screenshot writes a picture of the window to the directory $SCREENSHOTS, if that
// is set.
func (tab *Tab) Screenshot(name string) {
	tab.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png := run(tab, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		tab.t.Fatal(err)
	}
}
