//go:build system

package external

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/keyed"
)

// patience bounds one run of a client.
const patience = time.Minute

// run runs a client, and returns its output. The test fails if the client is missing or
// fails.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("no %s found: make need installs it, or says how: %v", name, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, &out, &diagnosis)
	}
	return out.String()
}

// A site is a handler behind a Middleware.
type site struct {
	*httplimit.Middleware
	http.Handler
	runs atomic.Int64 // of the handler behind it
}

func newSite(t *testing.T, cfg httplimit.Config, h http.HandlerFunc) *site {
	t.Helper()
	m, err := httplimit.New(cfg)
	testrig.Must(t, err)
	s := &site{Middleware: m}
	s.Handler = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		h(w, r)
	}))
	return s
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) }

// byKey is a rule per X-Api-Key. Requests without that field share one bucket.
func byKey(t *testing.T, q gcra.Quota) httplimit.Rule {
	t.Helper()
	lim, err := keyed.New[string](q, keyed.Config{})
	testrig.Must(t, err)
	return httplimit.PerKey("per-key", lim, httplimit.Header("X-Api-Key"))
}
