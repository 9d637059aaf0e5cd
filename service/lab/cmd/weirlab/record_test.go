package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// Each request of a load has a record.
func TestLoadRecords(t *testing.T) {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.Header().Set("Weir-Reason", "queue_full")
			w.WriteHeader(503)
		}
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "run.rec")
	if code, _, stderr := weirlab(t, "load", srv.URL, "-n", "10", "--workers", "1", "--timeout", "7s", "--quiet", "--record", file); code != 0 {
		t.Fatalf("%d, %s", code, stderr)
	}
	r, err := recording.NewReader(bytes.NewReader(must(t, file)))
	clitest.Fatal(t, err)
	if age := time.Since(r.Epoch()); age < 0 || age > time.Hour {
		t.Errorf("the epoch was %v ago", age)
	}
	for i := range 10 {
		got, err := r.Read()
		clitest.Fatal(t, err)
		want := recording.Ended(weir.Success)
		if i%2 == 1 {
			want = recording.Rejected(weir.QueueFull)
		}
		if got.Outcome != want || got.Inflight != 1 || got.End < got.Intended || got.Deadline < 7*time.Second {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("%v", err)
	}
	for _, args := range [][]string{{"--record", t.TempDir()}, {"--record", file, "--trace", file}} {
		if code, _, stderr := weirlab(t, append([]string{"load", srv.URL, "-n", "1", "--quiet"}, args...)...); code == 0 || !strings.Contains(stderr, "--record") {
			t.Errorf("%q: %d, %q", args, code, stderr)
		}
	}
}
