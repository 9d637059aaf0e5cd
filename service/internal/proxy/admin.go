package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/service/internal/settings"
)

// A Change changes the settings of a running Proxy. A nil field changes nothing.
type Change struct {
	Limit   *Limit             `json:"limit"`
	Queue   *int               `json:"queue"`    // waiting requests; 0: none waits
	MaxWait *settings.Duration `json:"max_wait"` // 0: as long as the client waits
}

// Settings is the response of GET /-/set: the settings, and the current state.
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
}

// Settings returns the settings and the current state.
func (p *Proxy) Settings() Settings {
	s := p.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	return Settings{
		Limit: p.limit, Queue: p.queue, MaxWait: p.maxWait,
		LimitNow: s.Limit, Inflight: s.Inflight, Waiting: s.Waiting, Abandoned: s.Abandoned, LongLived: s.LongLived,
		Draining: p.draining.Load(),
	}
}

// Set applies a change, or returns an error and applies nothing. An automatic
// limit starts from the beginning.
func (p *Proxy) Set(c Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue, maxWait := settings.Or(c.Queue, p.queue), settings.Or(c.MaxWait, p.maxWait)
	switch {
	case queue < 0:
		return fmt.Errorf("queue = %d: must be >= 0", queue)
	case maxWait < 0:
		return fmt.Errorf("max_wait = %v: must be >= 0", time.Duration(maxWait))
	case c.Limit != nil:
		algorithm, err := c.Limit.Algorithm(p.cfg.Auto)
		if err != nil {
			return err
		}
		p.limit = *c.Limit
		p.limiter.SetAlgorithm(algorithm)
	}
	p.queue, p.maxWait = queue, maxWait
	p.limiter.SetQueue(settings.OrNone(queue), settings.OrNone(time.Duration(maxWait)))
	p.log.Info("settings changed", "limit", p.limit, "queue", queue, "max_wait", time.Duration(maxWait))
	return nil
}

// Admin returns the handler for the operator: /-/health, /-/ready (a Status, with
// 200, or 503 while the proxy drains), /-/set and /metrics. It can change the
// proxy, so it does not belong on the public listener.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "healthy\n")
	})
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		s := p.Status()
		w.Header().Set("Content-Type", "application/json")
		if !s.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(s)
	})
	mux.Handle("/-/set", settings.Handler(func() any { return p.Settings() }, p.Set))
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
