package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/proxy"
)

type proxyCmd struct {
	Origin string `required:"" placeholder:"URL" help:"The service to protect, such as http://127.0.0.1:8000."`
	Listen string `default:"127.0.0.1:7000" placeholder:"ADDR" help:"Where clients come in (${default})."`
	Admin  string `default:"127.0.0.1:7001" placeholder:"ADDR" help:"Where /-/health, /-/ready, /-/set and /metrics are (${default}). Keep it private."`

	Limit        proxy.Limit   `default:"auto" placeholder:"N" help:"Requests in flight at the origin: a number, or auto to find it (${default})."`
	InitialLimit int           `default:"10" placeholder:"N" help:"Where auto starts (${default})."`
	MinLimit     int           `default:"1" placeholder:"N" help:"The least that auto may come to (${default})."`
	MaxLimit     int           `default:"10000" placeholder:"N" help:"The most that auto may come to (${default})."`
	MaxHealthy   time.Duration `name:"max-healthy-latency" default:"0s" placeholder:"TIME" help:"Longer than that at the origin counts as overload to auto; 0: auto judges by itself (${default})."`
	Queue        int           `default:"1000" placeholder:"N" help:"Requests that may wait for their turn; 0: none (${default})."`
	MaxWait      time.Duration `default:"500ms" placeholder:"TIME" help:"How long one may wait; 0: as long as its client does (${default})."`

	Timeout        time.Duration `default:"30s" placeholder:"TIME" help:"How long the origin may take to answer; later counts as overload. Set it a little below your clients' time-out. 0: for ever (${default})."`
	AbandonedHold  time.Duration `default:"30s" placeholder:"TIME" help:"How long work that nobody waits for counts as in flight, unless the origin answers before; 0: not at all (${default})."`
	ClientTimeout  time.Duration `default:"30s" placeholder:"TIME" help:"How long a client may keep the proxy waiting, to send or to take; 0: for ever (${default})."`
	LongLived      int           `default:"1000" placeholder:"N" help:"Exchanges that may go on without being counted as in flight, such as WebSockets, event streams and slow downloads; 0: none (${default})."`
	MaxConnections int           `default:"10000" placeholder:"N" help:"Client connections at once; more wait to be accepted (${default})."`
	Grace          time.Duration `default:"30s" placeholder:"TIME" help:"How long to finish what is in flight after SIGTERM or Ctrl-C (${default})."`
	LogLevel       slog.Level    `default:"info" placeholder:"LEVEL" help:"debug, info, warn or error; debug tells every change of the limit (${default})."`
}

func (c *proxyCmd) config(log *slog.Logger) (proxy.Config, error) {
	err := cmp.Or(
		atLeast(0, "--queue", c.Queue), atLeast(0, "--max-wait", c.MaxWait),
		atLeast(0, "--max-healthy-latency", c.MaxHealthy),
		atLeast(0, "--timeout", c.Timeout), atLeast(0, "--abandoned-hold", c.AbandonedHold),
		atLeast(0, "--client-timeout", c.ClientTimeout), atLeast(0, "--grace", c.Grace),
		atLeast(1, "--max-connections", c.MaxConnections), atLeast(0, "--long-lived", c.LongLived),
	)
	cfg := proxy.Config{
		Origin: c.Origin, Limit: c.Limit,
		Auto: limit.AutoConfig{
			Initial: c.InitialLimit, Min: c.MinLimit, Max: c.MaxLimit, MaxHealthyLatency: c.MaxHealthy,
		},
		Queue: orNone(c.Queue), MaxWait: orNone(c.MaxWait),
		Timeout: orNone(c.Timeout), AbandonedHold: orNone(c.AbandonedHold), ClientTimeout: orNone(c.ClientTimeout),
		LongLived: orNone(c.LongLived), Logger: log,
	}
	if err != nil {
		return cfg, err
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("%v", err)
	}
	return cfg, nil
}

// Run serves until ctx ends, and then drains.
func (c *proxyCmd) Run(ctx context.Context, std streams) error {
	log := slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: c.LogLevel}))
	cfg, err := c.config(log)
	if err != nil {
		return err
	}
	p, err := proxy.New(cfg)
	if err != nil {
		return err
	}
	ln, err := listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	admin, err := listen("--admin", c.Admin)
	if err != nil {
		ln.Close()
		return err
	}
	stopAdmin := serveAdmin(p, admin, log)
	defer stopAdmin()
	log.Info("weir proxy", "listen", "http://"+ln.Addr().String(), "admin", "http://"+admin.Addr().String(),
		"origin", c.Origin, "limit", c.Limit.String(), "queue", c.Queue, "max_wait", c.MaxWait)

	go p.Watch(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		p.Drain()
		log.Info("draining", "grace", c.Grace)
		stop()
	})
	if err := httpserve.Serve(serving, httpserve.New(p, log), p.Listener(ln, c.MaxConnections), c.Grace, p.Idle); err != nil {
		return err
	}
	log.Info("drained")
	return nil
}

func serveAdmin(p *proxy.Proxy, ln net.Listener, log *slog.Logger) (stop func()) {
	srv := httpserve.New(p.Admin(), log)
	srv.ReadTimeout, srv.WriteTimeout = 10*time.Second, 30*time.Second
	go func() {
		// It ends with Close; nothing else is expected of a listener on hand.
		log.Debug("the admin listener is closed", "reason", srv.Serve(ln))
	}()
	return func() { _ = srv.Close() }
}
