package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/heapfloor"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/otlp"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/internal/supervisor"
)

type proxyCmd struct {
	Origin         []string      `required:"" placeholder:"URL" help:"URL of the service to protect, such as http://127.0.0.1:8000: http, https (HTTP/2 if the origin speaks it), h2c (HTTP/2 without TLS), or unix:///run/app.sock. Several, each with a flag of its own or separated by commas: a request goes to the one with less load of two random ones, and an origin that fails gets none for a while. An adaptive --limit is one for each of them, a number is one for all."`
	HealthPath     string        `placeholder:"/PATH" group:"health" help:"Check the health of each origin by a GET of this path, such as /healthz. A status from 200 to 399 is good; two others in a row, or none in time, eject the origin until a check is good, and a request tries it at once then. The default is no checks."`
	HealthInterval time.Duration `least:"100ms" default:"5s" placeholder:"TIME" group:"health" help:"Time between two health checks of an origin, and how long each may take (${default})."`
	Listen         string        `default:"127.0.0.1:7000" placeholder:"ADDR" help:"Address for clients, or unix:PATH for a Unix socket (${default})."`
	Admin          string        `default:"127.0.0.1:7001" placeholder:"ADDR" help:"Address for operators, or unix:PATH: a page at /, and /-/health, /-/ready, /-/status, /-/set, /-/reload, /-/recording and /metrics. Keep it private (${default})."`

	Pprof bool `group:"operators" help:"Serve /debug/pprof/ to operators."`

	proxyRules `embed:""`

	Limit        proxy.Limit   `default:"auto" choices:"auto,aimd,vegas,gradient2" placeholder:"N" help:"Maximum requests in flight at the origin: a number, or auto to adapt it; for comparison, also aimd, vegas or gradient2. With --rules: of the requests that no class with a limit has (${default})."`
	InitialLimit int           `least:"0" default:"0" placeholder:"N" group:"limit" help:"Initial limit, unless it is a number; 0: 10, or the bound that is nearer (${default})."`
	MinLimit     int           `default:"1" placeholder:"N" group:"limit" help:"Lower bound of the limit, unless it is a number (${default})."`
	MaxLimit     int           `default:"10000" placeholder:"N" group:"limit" help:"Upper bound of the limit, unless it is a number (${default})."`
	MaxHealthy   time.Duration `least:"0s" name:"max-healthy-latency" default:"0s" placeholder:"TIME" help:"For auto and aimd: a longer response time of the origin is overload; 0: auto decides (${default})."`
	SlowStart    time.Duration `least:"0s" default:"0s" placeholder:"TIME" group:"limit" help:"After one to two times this time without use, and at first, the limit begins at a tenth, and doubles while requests succeed: for an origin that is slow while its caches are cold; 0: never (${default})."`
	MaxPressure  float64       `least:"0" most:"0.99" default:"0" placeholder:"SHARE" group:"limit" help:"The share of the time in which work may wait for the processor, such as 0.4. Above it, a rising part of the requests is rejected, the least important first: for an origin on the same machine. 0: no bound (${default})."`
	PressureFile string        `default:"/proc/pressure/cpu" placeholder:"FILE" group:"limit" help:"The pressure on the processor: of the machine, or a cgroup's cpu.pressure (${default})."`
	Queue        int           `least:"0" default:"1000" placeholder:"N" help:"Requests that may wait while the limit is reached; at each origin, if each has a limit; 0: none (${default})."`
	MaxWait      time.Duration `least:"0s" default:"500ms" placeholder:"TIME" help:"Maximum time a request may wait; 0: until its client gives up (${default})."`

	Timeout        time.Duration `least:"0s" default:"30s" placeholder:"TIME" help:"Maximum response time of the origin. Exceeding it counts as overload. Set it slightly below the time-out of your clients. 0: no time-out (${default})."`
	AbandonedHold  time.Duration `least:"0s" default:"30s" placeholder:"TIME" group:"bounds" help:"How long a request whose client has left goes on at the origin, and counts as in flight, unless the origin answers earlier; 0: it ends with its client (${default})."`
	ClientTimeout  time.Duration `least:"0s" default:"30s" placeholder:"TIME" group:"bounds" help:"How long a client may take to send a request or to read an answer; 0: no time-out (${default})."`
	LongLived      int           `least:"0" default:"2000" placeholder:"N" group:"bounds" help:"Maximum number of long-lived exchanges, such as WebSockets, event streams and slow downloads, that do not count as in flight. One address may have half of them, and at most as many as are free. Beyond that, they count as in flight, and are ended while the limit is reached; 0: all count, and none is ended (${default})."`
	MaxConnections int           `least:"1" default:"10000" placeholder:"N" group:"bounds" help:"Maximum number of client connections. One address may have half of them, and at most as many as are free. Beyond that, a new connection replaces an idle one, or gets 503 (${default})."`
	DrainDelay     time.Duration `least:"0s" default:"5s" placeholder:"TIME" group:"stop" help:"After SIGTERM or Ctrl-C: how long to serve as before, but not ready, and ask clients to leave; 0s if there are no connections (${default})."`
	Grace          time.Duration `least:"0s" default:"30s" placeholder:"TIME" group:"stop" help:"After that: how long to wait for requests in flight (${default})."`
	cli.Listeners  `embed:""`
	proxyWire      `embed:""`
	proxyUpstream  `embed:"" group:"upstream"`
	recordings     `embed:""`
	LogFormat      string     `default:"text" enum:"text,json" placeholder:"NAME" help:"Log as text or json (${default})."`
	LogLevel       slog.Level `default:"info" placeholder:"LEVEL" help:"Log this level and above: debug, info, warn or error; debug logs each change of the limit (${default})."`
}

func (c *proxyCmd) config(log *slog.Logger) proxy.Config {
	return proxy.Config{
		Origins: c.Origin, Limit: c.Limit,
		Auto: limit.Config{
			Initial: cmp.Or(c.InitialLimit, max(min(10, c.MaxLimit), c.MinLimit)), Min: c.MinLimit, Max: c.MaxLimit, MaxHealthyLatency: c.MaxHealthy,
		},
		HealthPath: c.HealthPath, HealthInterval: c.HealthInterval,
		SlowStart: c.SlowStart, MaxPressure: c.MaxPressure, PressureFile: c.PressureFile,
		Queue: settings.OrNone(c.Queue), MaxWait: settings.OrNone(c.MaxWait), Timeout: settings.OrNone(c.Timeout),
		AbandonedHold: settings.OrNone(c.AbandonedHold), ClientTimeout: settings.OrNone(c.ClientTimeout),
		LongLived: settings.OrNone(c.LongLived), Logger: log,
		LoadRules: c.loader(log), RulesPath: c.Rules, Shadow: c.Shadow,
	}
}

// Run serves until ctx ends, and then drains.
func (c *proxyCmd) Run(ctx context.Context, std cli.Streams) error {
	format := serveLog{LogFormat: c.LogFormat, LogLevel: c.LogLevel}
	log, lines := logqueue.New(std.Err, format.handler)
	defer lines.End()
	wire, err := c.open(log)
	if err != nil {
		return err
	}
	export, err := otlp.Start(ctx, otlp.Config{Name: "weir-proxy", Log: log})
	if err != nil {
		return err
	}
	defer export.Close()
	cfg := c.config(log)
	if wire.configure(&cfg); export.Traces() {
		cfg.TraceID = otlp.TraceID
	}
	if cfg.Box, err = c.box(log); err != nil {
		return err
	}
	decisions := newUpstreamDecisions() // empty without an upstream
	cfg.Collectors = append(wire.metrics(), lines.Metric(), decisions)
	watcher := c.watcher() // before the first load, so that no change after it is missed
	p, err := proxy.New(cfg)
	if err != nil {
		return c.refused(err)
	}
	to, err := c.dial(func(err error) {
		if err != nil {
			log.Error("the upstream does not answer", "upstream", c.UpstreamURL, "error", err)
		} else {
			log.Info("the upstream answers again", "upstream", c.UpstreamURL)
		}
	})
	if err != nil {
		return err
	}
	var limited http.Handler = p
	if to != nil {
		defer to.Close()
		limited = takeTokens(to, c.UpstreamKey, p.Shadow, decisions, p.CountDenied, p)
	}
	export.Gather(p.Metrics())
	limited = export.Handler(limited)
	ln, admin, err := c.OpenBoth(c.Listen, c.Admin, log)
	if err != nil {
		return err
	}
	page := proxypage.New(p, c.Pprof)
	defer page.Close()
	defer wire.serveAdmin(page, admin)()
	log.Info("weir proxy", "listen", httpserve.URL(scheme(c.TLSCert != ""), ln.Addr()), "admin", httpserve.URL(scheme(c.AdminTLS), admin.Addr()),
		"origin", strings.Join(c.Origin, ","), "limit", c.Limit.String(), "queue", c.Queue, "max_wait", c.MaxWait,
		"rules", c.Rules, "shadow", c.Shadow)

	go p.Watch(ctx)
	defer cfg.Box.Start(ctx)()
	go p.CheckOrigins(ctx)
	go heapfloor.Keep(ctx)
	defer wire.watch(ctx, p)()
	defer c.reloads(ctx, watcher, p)()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		supervisor.Stopping(log)
		if n := p.Drain(); n > 0 && c.DrainDelay > 0 {
			log.Info("not ready: clients are asked to leave", "connections", n, "delay", c.DrainDelay)
			time.Sleep(c.DrainDelay)
		}
		log.Info("draining", "grace", c.Grace)
		stop()
	})
	// A client's connection can need one to the origin. The others are for operators and DNS.
	srv := wire.server(limited, p.Draining, c.ClientTimeout)
	defer httpserve.CatchLog(log)()
	conns := wire.limit(ln, connlimit.Fit(c.MaxConnections, 2, operator.MaxConns+56, log), srv)
	wire.attach(srv, conns, p)
	supervisor.Ready(log)
	if err := httpserve.Serve(serving, srv, p.Listener(conns), c.Grace, p.Idle); err != nil {
		return err
	}
	log.Info("drained")
	return nil
}
