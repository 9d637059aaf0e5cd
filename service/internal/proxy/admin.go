package proxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Change changes the settings of a running Proxy. A nil field changes nothing.
type Change struct {
	// Class is the class to change, or total for the limit of all classes. If nil, default.
	Class   *string            `json:"class"`
	Limit   *Limit             `json:"limit"`
	Queue   *int               `json:"queue"`    // waiting requests; 0: none waits
	MaxWait *settings.Duration `json:"max_wait"` // 0: as long as the client waits
}

// Settings is the response of GET /-/set: the settings of the class default, and its current
// state.
type Settings struct {
	Limit     Limit             `json:"limit"`
	Queue     int               `json:"queue"`
	MaxWait   settings.Duration `json:"max_wait"`
	LimitNow  int               `json:"limit_now"`
	Inflight  int               `json:"inflight"`
	Waiting   int               `json:"waiting"`
	Abandoned int               `json:"abandoned"`
	LongLived int               `json:"long_lived"`
	Draining  bool              `json:"draining"`
	// Classes has the settings of the other limits, by name.
	Classes map[string]ClassSettings `json:"classes,omitempty"`
}

// ClassSettings are the settings of a limit.
type ClassSettings struct {
	Limit   Limit             `json:"limit"`
	Queue   int               `json:"queue"`
	MaxWait settings.Duration `json:"max_wait"`
}

// Settings returns the settings and the current state.
func (p *Proxy) Settings() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plan.Load()
	l := pl.Limiters[proxyrule.DefaultClass]
	forwards := p.forwarder.Stats()
	st, set := l.State(), l.Settings()
	s := Settings{
		Limit: set.Limit, Queue: set.Queue, MaxWait: set.MaxWait, LimitNow: st.Limit, Inflight: st.Inflight, Waiting: st.Waiting,
		Abandoned: forwards.Abandoned, LongLived: forwards.LongLived, Draining: p.draining.Load(),
	}
	for name, l := range pl.Limiters {
		if name != proxyrule.DefaultClass {
			if s.Classes == nil {
				s.Classes = map[string]ClassSettings{}
			}
			set := l.Settings()
			s.Classes[name] = ClassSettings{set.Limit, set.Queue, set.MaxWait}
		}
	}
	return s
}

// Set applies a change, or returns an error and applies nothing. An adaptive limit starts
// from the beginning. The change holds until the file of rules has another setting.
func (p *Proxy) Set(c Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := settings.Or(c.Class, proxyrule.DefaultClass)
	pl := p.plan.Load()
	l := pl.Limiters[name]
	switch {
	case l == nil && pl.ClassNamed(name) != nil:
		return fmt.Errorf("class = %q: shares the limit of the class default", name)
	case l == nil:
		return fmt.Errorf("class = %q: there is no such class with a limit; there are %s", name, strings.Join(slices.Sorted(maps.Keys(pl.Limiters)), ", "))
	case c.Limit == nil && c.Queue == nil && c.MaxWait == nil:
		return errors.New("nothing to set: give limit, queue or max_wait")
	}
	to := l.Settings()
	to.Limit, to.Queue, to.MaxWait = settings.Or(c.Limit, to.Limit), settings.Or(c.Queue, to.Queue), settings.Or(c.MaxWait, to.MaxWait)
	switch {
	case to.Queue < 0:
		return fmt.Errorf("queue = %d: must be >= 0", to.Queue)
	case to.MaxWait < 0:
		return fmt.Errorf("max_wait = %v: must be >= 0", time.Duration(to.MaxWait))
	}
	apply, err := l.Change(to, c.Limit == nil)
	if err != nil {
		return err
	}
	apply()
	p.log.Info("settings changed", "class", name, "limit", to.Limit, "queue", to.Queue, "max_wait", time.Duration(to.MaxWait))
	return nil
}

// Admin returns the handler for the operator: /-/health, /-/ready (a Status, with
// 200, or 503 while the proxy drains), /-/status (a Report), /-/set, POST /-/reload,
// /-/recording (package blackbox) and /metrics. It can change the proxy, so it does not belong on the public listener.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "healthy\n")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		s, status := p.Status(), http.StatusOK
		if !s.Ready {
			status = http.StatusServiceUnavailable
		}
		operator.Answer(w, status, s)
	})
	mux.HandleFunc("GET /-/status", func(w http.ResponseWriter, _ *http.Request) { operator.Answer(w, http.StatusOK, p.Report()) })
	mux.HandleFunc("POST /-/reload", p.serveReload)
	mux.Handle("/-/set", settings.Handler(func() any { return p.Settings() }, p.Set))
	mux.Handle("GET /-/recording", p.cfg.Box)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{EnableOpenMetrics: p.cfg.TraceID != nil}))
	return mux
}
