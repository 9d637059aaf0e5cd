package httplimit

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/internal/observe"
)

// errLongLived refuses a request because requests that go on hold all units of its limit. It
// is a separate Rejection: one that weir.Reject shares would also be another limiter's.
var errLongLived = &weir.Rejection{Reason: weir.OverLimit, RetryAfter: time.Second}

// warnStay warns that the first request stays in its limit for lack of a place among the long-lived ones.
func (m *Middleware) warnStay() {
	log := m.cfg.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn("httplimit: Config.LongLived is used up by event streams, WebSockets and other requests that go on after their header; more of them hold"+
		" units of their limit, and a limit that they fill refuses requests with the reason long_lived", "long_lived", m.long.Now())
}

// newLong returns the exchange of the request, which takes its permit over.
func (v *visit) newLong() *longlived.Exchange {
	permit := v.Detach()
	return v.site.long.NewExchange(v.Limiter(), v.Units(), &permit)
}

// watch watches the body of a request, unless it was received first.
func (v *visit) watch(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || !v.Limited() || v.site.cfg.Shadow {
		return
	}
	if _, first := r.Body.(received); first {
		return
	}
	v.long = v.newLong()
	r.Body = watchedBody{r.Body, v.long} // r is a copy: see receive
	v.long.Watch()
}

// A watchedBody tells when the handler waits for more of it.
type watchedBody struct {
	io.ReadCloser
	long *longlived.Exchange
}

func (b watchedBody) Read(p []byte) (int, error) {
	b.long.Reads(true)
	defer b.long.Reads(false)
	return b.ReadCloser.Read(p)
}

// Lasts is called when the response goes on after its header. The duration that
// the limiter learns ends here. A stream and a hijacked connection leave the limit
// at once. Another response leaves it after the time that ordinary work takes.
func (v *visit) Lasts(kind observe.Kind) {
	if !v.Limited() {
		return
	}
	if v.long == nil {
		v.long = v.newLong()
	}
	v.long.Lasts(kind == observe.Body, observe.Outcome(v.Request().Context(), v.writer.Status))
}
