package httplimit

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/priority"
)

// heed returns the request with the priority and the deadline of its headers.
func (m *Middleware) heed(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if name := m.cfg.Criticality; name != "" {
		if p, ok := priority.Parse(r.Header.Get(name), m.door.Trusts(peer(r))); ok {
			class := weir.ClassOf(ctx)
			class.Priority = p
			ctx = weir.WithClass(ctx, class)
		}
	}
	if name := m.cfg.Deadline; name != "" {
		if d, ok := parseDeadline(r.Header.Get(name)); ok {
			ctx, cancel = context.WithTimeout(ctx, d)
		}
	}
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	return r, cancel
}

// parseDeadline parses milliseconds, or a number with a unit as Go writes
// durations. It ignores values above a day.
func parseDeadline(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 32 {
		return 0, false
	}
	d := time.Duration(-1)
	if ms, err := strconv.ParseUint(s, 10, 32); err == nil {
		d = time.Duration(ms) * time.Millisecond
	} else if parsed, err := time.ParseDuration(s); err == nil {
		d = parsed
	}
	return d, d > 0 && d <= 24*time.Hour
}
