package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
)

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "1"}, {1, "1"}, {time.Second, "1"}, {time.Second + 1, "2"}, {time.Minute, "60"}, {2 * time.Minute, "120"},
		{2*time.Minute + 1, "121"}, {time.Hour, "3600"}, {weir.Never - 1, "9223372037"},
	} {
		if got := problem.RetryAfter(tt.d); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%v: %q, want %s", tt.d, got, tt.want)
		}
	}
	if got := problem.RetryAfter(weir.Never); got != nil {
		t.Errorf("never: %q", got)
	}
}

func TestAnswer(t *testing.T) {
	p := problem.New(503, problem.ReducedCapacity, "queue_full", `too "much"`)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := httptest.NewRecorder()
		p.Write(w, httptest.NewRequest(method, "/", nil), problem.RetryAfter(time.Second))
		h := w.Header()
		if w.Code != 503 || h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Retry-After") != "1" || h.Get(problem.ReasonHeader) != "queue_full" {
			t.Errorf("%s: %d %v", method, w.Code, h)
		}
		if method == http.MethodHead {
			if w.Body.Len() != 0 {
				t.Errorf("HEAD has a body: %s", w.Body)
			}
			continue
		}
		if h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Content-Length: %s of a body of %d", h.Get("Content-Length"), w.Body.Len())
		}
		var body struct {
			Type, Title, Detail, Reason string
			Status                      int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Detail != `too "much"` || body.Status != 503 ||
			body.Type != problem.ReducedCapacity || body.Title != "Service Unavailable" || body.Reason != "queue_full" {
			t.Errorf("%v: %+v", err, body)
		}
	}
}

// A middleware around the one that refuses, which encodes what it gets, does
// not send the length of what it got.
func TestAnOuterEncodingHasNoLength(t *testing.T) {
	p := problem.New(503, problem.ReducedCapacity, "queue_full", "full")
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	p.Write(w, httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if n, ok := w.Header()["Content-Length"]; ok || w.Body.Len() == 0 {
		t.Errorf("Content-Length: %s", n)
	}
}
