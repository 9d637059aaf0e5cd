package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/problem"
)

// Two equal keys of a literal are an error of the compiler: the header that is documented is the one that is sent.
var _ = map[bool]bool{false: true, ReasonHeader == problem.ReasonHeader: true}

func TestReject(t *testing.T) {
	rejection := func(why weir.Reason, d time.Duration) error { return &weir.Rejection{Reason: why, RetryAfter: d} }
	for _, tt := range []struct {
		err    error
		status int
		retry  string
		reason string
	}{
		{rejection(weir.OverRate, 1001*time.Millisecond), 429, "2", "over_rate"},
		{rejection(weir.OverBurst, weir.Never), 429, "", "over_burst"},
		{rejection(weir.OverLimit, 0), 503, "1", "over_limit"},
		{rejection(weir.QueueFull, time.Second), 503, "1", "queue_full"},
		{rejection(weir.Overdue, 1), 503, "1", "overdue"},
		{fmt.Errorf("wrapped: %w", rejection(weir.TooLate, 0)), 503, "1", "too_late"},
		{rejection(weir.Closed, weir.Never), 503, "", "closed"},
		{rejection(weir.Throttled, weir.Never-1), 503, "9223372037", "throttled"},
		{rejection(weir.Recovering, time.Minute), 503, "60", "recovering"},
		{rejection(99, 0), 503, "1", "unknown"},
		{context.DeadlineExceeded, 504, "", "timeout"},
		{context.Canceled, 499, "", "client_gone"},
		{errors.New("else"), 500, "", "failed"},
	} {
		w := httptest.NewRecorder()
		Reject(w, httptest.NewRequest("GET", "/", nil), tt.err)
		h := w.Header()
		if w.Code != tt.status || h.Get("Retry-After") != tt.retry || h.Get(ReasonHeader) != tt.reason ||
			h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/problem+json" ||
			h.Get("Content-Length") != fmt.Sprint(w.Body.Len()) || (tt.retry == "") != (h["Retry-After"] == nil) ||
			!strings.Contains(w.Body.String(), fmt.Sprintf(`"status":%d,`, tt.status)) {
			t.Errorf("%v: %d %v %s", tt.err, w.Code, h, w.Body)
		}
		w = httptest.NewRecorder()
		if Reject(w, httptest.NewRequest("HEAD", "/", nil), tt.err); w.Body.Len() > 0 || w.Code != tt.status {
			t.Errorf("%v: %d %s: want no body for HEAD", tt.err, w.Code, w.Body)
		}
	}
}
