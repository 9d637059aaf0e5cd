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

// A Change is what POST /-/set changes. What is absent stays as it is.
type Change struct {
	Limit   *Limit             `json:"limit"`    // "auto", or requests in flight
	Queue   *int               `json:"queue"`    // waiting requests; 0: none waits
	MaxWait *settings.Duration `json:"max_wait"` // 0: as long as the client does
}

// Settings is what GET /-/set shows: what is set, and what came of it.
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

// Settings returns what GET /-/set shows.
func (p *Proxy) Settings() Settings {
	s := p.Stats()
	queue, maxWait := p.limiter.Queue()
	return Settings{
		Limit: s.Mode, Queue: max(queue, 0), MaxWait: settings.Duration(max(maxWait, 0)),
		LimitNow: s.Limit, Inflight: s.Inflight, Waiting: s.Waiting, Abandoned: s.Abandoned, LongLived: s.LongLived,
		Draining: p.draining.Load(),
	}
}

// Set applies a change, or returns what is wrong with it and applies nothing.
// A limit that finds itself starts anew.
func (p *Proxy) Set(c Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue, maxWait := p.limiter.Queue()
	if c.Queue != nil {
		if *c.Queue < 0 {
			return fmt.Errorf("queue = %d: must be >= 0", *c.Queue)
		}
		queue = orNone(*c.Queue)
	}
	if c.MaxWait != nil {
		if *c.MaxWait < 0 {
			return fmt.Errorf("max_wait = %v: must be >= 0", time.Duration(*c.MaxWait))
		}
		maxWait = orNone(time.Duration(*c.MaxWait))
	}
	if c.Limit != nil {
		alg, err := c.Limit.algorithm(p.cfg.Auto)
		if err != nil {
			return err
		}
		p.limit = *c.Limit
		p.limiter.SetAlgorithm(alg)
	}
	p.limiter.SetQueue(queue, maxWait)
	p.log.Info("settings changed", "limit", p.limit, "queue", max(queue, 0), "max_wait", max(maxWait, 0))
	return nil
}

// orNone turns an operator's zero, which means none, into that of a Config,
// whose zero means the default.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// Admin serves the proxy's operator: /-/health, /-/ready (200, or 503 while it
// drains, and a Status), /-/set and /metrics. It can change the proxy, so keep it off the public listener.
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
