// Package proxypage serves a live page about weir proxy to its operators, beside the
// endpoints of proxy.Proxy.Admin. It must be served on a listener that is not public,
// because it shows the rules, and lets operators change the proxy.
//
//	GET /              the page
//	GET /-/live        a State; ?since=MS adds the history after that time
//	GET /debug/pprof/  profiles of the process, if they are wanted
//	GET /-/explain     an Explanation of the request ?method=GET&url=URL&address=IP&header=NAME:VALUE&header=...
//
// Times are in milliseconds, instants since 1970. Members are only ever added.
package proxypage

import (
	"embed"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/forward"
)

//go:embed assets
var assets embed.FS

// A Source has the state that the page shows. A *proxy.Proxy is one. It must be safe for
// concurrent use.
type Source interface {
	Report() proxy.Report
	Work() forward.Work
	Explain(*http.Request) proxy.Explanation
	Admin() http.Handler
}

// A Page is an http.Handler. It is safe for concurrent use.
type Page struct {
	source  Source
	handler http.Handler
	started time.Time

	mu       sync.Mutex // guards the fields below
	readings []reading  // the last ones, the oldest first
	state    State
	history  operator.History[Sample]

	end func() // ends the readings
}

// New returns a Page, which reads the state of the source every second until Close. It serves
// profiles of the process, too, if they are wanted.
func New(source Source, profiles bool) *Page {
	p := &Page{source: source, started: time.Now()}
	mux := http.NewServeMux()
	mux.Handle("/", source.Admin())
	mux.HandleFunc("GET /-/live", p.serveLive)
	mux.HandleFunc("GET /-/explain", p.serveExplain)
	if profiles {
		operator.ServeProfiles(mux)
	}
	operator.ServePage(mux, assets)
	p.handler = mux
	p.end = operator.Sampling(p.sample)
	return p
}

// Close ends the readings. Requests are still served.
func (p *Page) Close() { p.end() }

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

func (p *Page) serveLive(w http.ResponseWriter, r *http.Request) {
	since, ok := operator.Number(w, r.URL.Query().Get("since"), 0)
	if !ok {
		return
	}
	p.mu.Lock()
	st := p.state
	st.History = p.history.Since(int64(since))
	p.mu.Unlock()
	operator.Answer(w, http.StatusOK, st)
}

// window bounds the period of all rates. The samples of the history have the same, so that
// the plots agree with the numbers.
const window = 5 * time.Second

// sample reads the state.
func (p *Page) sample() {
	r := reading{report: p.source.Report(), work: p.source.Work()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.readings) > 1 && r.work.At.Sub(p.readings[1].work.At) >= window-time.Second/2 {
		p.readings = p.readings[1:]
	}
	then := r
	if len(p.readings) > 0 {
		then = p.readings[0]
	}
	p.readings = append(p.readings, r)
	p.state = stateOf(r, then)
	p.state.StartedMS = p.started.UnixMilli()
	p.history.Add(p.state.NowMS, p.state.sample())
}
