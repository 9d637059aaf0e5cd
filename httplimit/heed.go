package httplimit

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
)

// heed returns the request with the priority and the deadline that its headers
// say.
func (m *Middleware) heed(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if name := m.cfg.Criticality; name != "" {
		if p, ok := priority(r.Header.Get(name)); ok {
			if p > weir.Critical && !m.trusts(r) {
				p = weir.Critical
			}
			ctx = weir.WithPriority(ctx, p)
		}
	}
	if name := m.cfg.Deadline; name != "" {
		if d, ok := patience(r.Header.Get(name)); ok {
			ctx, cancel = context.WithTimeout(ctx, d)
		}
	}
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	return r, cancel
}

func (m *Middleware) trusts(r *http.Request) bool {
	a, ok := parseAddr(r.RemoteAddr)
	return ok && contains(m.cfg.Trusted, a)
}

// priority is what a header calls a criticality.
func priority(s string) (weir.Priority, bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "sheddable":
		return weir.Sheddable, true
	case "sheddable_plus":
		return weir.SheddablePlus, true
	case "critical":
		return weir.Critical, true
	case "critical_plus":
		return weir.CriticalPlus, true
	}
	return 0, false
}

// patience is how long a header says that a client waits: milliseconds, or a
// number with a unit, of Go or, as in 250m, of gRPC. It is at most a day: beyond
// that, it says nothing.
func patience(s string) (time.Duration, bool) {
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
