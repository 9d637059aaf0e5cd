package weirotel

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/weirotel/internal/decision"
)

// visit is the context key of the *httpVisit of a request.
type visit struct{}

type httpVisit struct {
	decision.Decision
	admitted bool
}

// Handler returns next behind m, as m.Handler does, and records the decisions. The wait
// includes the time in which a small body is received. Use Refuse, too, to record the rule that
// refused a request.
func Handler(m *httplimit.Middleware, next http.Handler) http.Handler {
	limited := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v, ok := r.Context().Value(visit{}).(*httpVisit); ok {
			v.admitted = true
			v.Admit()
		}
		next.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := decision.Arrive(r.Context())
		if !d.Recorded() {
			limited.ServeHTTP(w, r)
			return
		}
		v := &httpVisit{Decision: d}
		limited.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visit{}, v)))
		if v.admitted {
			return
		}
		reason := w.Header().Get(httplimit.ReasonHeader)
		decided := "reject"
		if reason == "client_gone" {
			decided = "cancel"
		}
		v.Waited()
		v.Span.SetAttributes(decision.DecisionKey.String(decided), decision.ReasonKey.String(reason))
	})
}

// A Refusal is a httplimit.Config.Refuse.
type Refusal = func(w http.ResponseWriter, r *http.Request, status int, rule string, err error)

// Refuse returns a Refusal that records the rule and the time of a retry, and answers by next.
// If next is nil, httplimit.Reject answers.
func Refuse(next Refusal) Refusal {
	return func(w http.ResponseWriter, r *http.Request, status int, rule string, err error) {
		if d := decision.Arrive(r.Context()); d.Recorded() {
			if d.Span.SetAttributes(decision.Attributes(err)...); rule != "" {
				d.Span.SetAttributes(decision.RuleKey.String(rule))
			}
		}
		if next != nil {
			next(w, r, status, rule, err)
			return
		}
		httplimit.Reject(w, r, err)
	}
}

// Transport returns a RoundTripper that sends requests with t, and records the decisions. A
// span of its own for each attempt is up to the Base of t, such as otelhttp.NewTransport.
func Transport(t *httpclient.Transport) http.RoundTripper { return transport{t} }

type transport struct{ *httpclient.Transport }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	d := decision.Arrive(r.Context())
	if !d.Recorded() {
		return t.Transport.RoundTrip(r)
	}
	var sent atomic.Bool
	admit := sync.OnceFunc(func() {
		sent.Store(true)
		d.Admit()
	})
	// http.Transport calls GetConn when the first attempt begins; another Base may not.
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GetConn: func(string) { admit() }})
	resp, err := t.Transport.RoundTrip(r.WithContext(ctx))
	_, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case err == nil:
		admit()
	case rejected, !sent.Load() && r.Context().Err() != nil:
		d.Refuse(err)
	}
	return resp, err
}
