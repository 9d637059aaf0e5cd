package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/otlp"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

type serveCmd struct {
	Listen string `placeholder:"ADDR" help:"Address for callers, HTTP/1.1 and HTTP/2, or unix:PATH for a Unix socket, as for the other listeners (127.0.0.1:8080)."`
	Port   int    `least:"0" most:"65535" short:"p" env:"PORT" placeholder:"N" help:"Listen on this port of all addresses, instead of --listen. (The variable is not $WEIR_PORT, because Kubernetes sets that for a Service named weir.)"`
	RESP   string `name:"resp-listen" placeholder:"ADDR" help:"Address for clients of Redis: CL.THROTTLE and more (off)."`
	GRPC   string `name:"grpc-listen" placeholder:"ADDR" help:"Address for gRPC alone: weir.v1 (docs/languages.md), and Envoy's rate-limit services, of which --listen serves one too, over HTTP/2, with more processor time."`
	Admin  string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Address for operators: the status page, /-/ready, /-/reload, /metrics and more. Keep it private (${default})."`

	Rules      string        `placeholder:"PATH" help:"The rules: a YAML file, or a directory of YAML files, of weir or of envoyproxy/ratelimit. Changes are loaded automatically."`
	Memory     settings.Size `least:"65536" default:"64MiB" placeholder:"SIZE" help:"Memory for the counts of keys (${default})."`
	GetDecides bool          `group:"answers" help:"With --rules: let GET /rate/{key} take tokens, as POST does. Without --rules, GET always does, as in GoCC."`
	Fields     string        `group:"answers" enum:"draft,draft_next,none" default:"draft" placeholder:"NAME" help:"The header fields RateLimit and RateLimit-Policy of answers: draft, as in draft 11 of the working group; draft_next, with the parameters a and w of RateLimit in place of r and t, as proposed for a later draft; or none (${default})."`

	daemon.Config           `embed:""`
	config.RateLimitOptions `embed:"" group:"envoy"`
	serveRuntime            `embed:""`

	ConfigFile          string `short:"c" env:"WEIR_CONFIG_FILE,CONFIG_FILE" placeholder:"PATH" group:"gocc" help:"Rules in GoCC's JSON format, instead of --rules."`
	GoCC                bool   `name:"gocc" group:"gocc" help:"The defaults of GoCC for flags that are not given: --log-format json, --log-includes-source, --requests-can-set-rate, --requests-can-mod-queue and --port 8080."`
	config.GoCCDefaults `embed:"" group:"gocc"`
	serveOwn            `embed:"" group:"gocc"`
	serveStore          `embed:"" group:"store"`
	serveUpstream       `embed:"" group:"upstream"`
	servePeers          `embed:"" group:"peers"`
	serveBound          `embed:"" group:"bounds"`
	cli.Listeners       `embed:""`
	serveLog            `embed:"" group:"log"`
	recordings          `embed:""`

	serveBenchmark `embed:"" group:"benchmark"`

	ServerType string `short:"s" hidden:"" env:"WEIR_SERVER_TYPE,SERVER_TYPE" help:"Accepted for compatibility with GoCC, without effect: HTTP/1.1 and HTTP/2 are always served."`
}

// Run serves until ctx ends, and then drains.
func (c *serveCmd) Run(ctx context.Context, std cli.Streams) error {
	c.useRuntime()
	c.useGoCC()
	if err := c.check(); err != nil {
		return err
	}
	if c.Benchmark {
		return c.benchmark(ctx, std.Out)
	}
	log, lines := logqueue.New(std.Err, c.handler)
	defer lines.End()
	defer httpserve.CatchLog(log)()
	cfg := c.config(log)
	var err error
	if cfg.Store, err = c.connect(); err != nil {
		return err
	}
	if cfg.Upstream, err = c.dial(); err != nil {
		return err
	}
	if cfg.Peers, err = c.peers(); err != nil {
		return err
	}
	if cfg.Box, err = c.box(log); err != nil {
		return err
	}
	cfg.Collectors = []prometheus.Collector{lines.Metric()}
	if cfg.Export, err = otlp.Start(ctx, otlp.Config{Name: "weir-serve", Log: log}); err != nil {
		return err
	}
	defer cfg.Export.Close()
	d, err := daemon.New(cfg)
	if err != nil {
		return err
	}
	var at daemon.Listeners
	if at.Public, at.Admin, err = c.OpenBoth(c.address(), c.Admin, log); err != nil {
		return err
	}
	if at.GRPC, err = c.OpenMore("--grpc-listen", c.GRPC, log); err != nil {
		return errors.Join(err, at.Close())
	}
	if at.RESP, err = c.OpenMore("--resp-listen", c.RESP, log); err != nil {
		return errors.Join(err, at.Close())
	}
	return d.Run(ctx, at)
}

func (c *serveCmd) config(log *slog.Logger) daemon.Config {
	limit, queue := c.overrides()
	cfg := c.Config
	cfg.Server = server.Config{
		Memory: int(c.Memory), MaxWaiting: settings.OrNone(c.MaxWaiting), MaxLeases: c.MaxLeases,
		MaxLimit: limit, MaxQueue: queue,
	}
	cfg.API = httpapi.Config{
		Fields: httpapi.Fields(c.Fields), GetDecides: c.GetDecides || c.Rules == "", MaxKey: c.MaxKey, MaxBody: int(c.MaxBody),
		BodyTimeout: c.ClientTimeout, AnswerTimeout: c.ClientTimeout, MaxLimit: limit, MaxQueue: queue,
	}
	if cfg.Ports = 1; c.GRPC != "" {
		cfg.Ports++
	}
	if c.RESP != "" {
		cfg.Ports++
		cfg.Server.OwnQuotas = true
	}
	cfg.Version = program.Version()
	cfg.LoadRules, cfg.RulesPath = c.rules, cmp.Or(c.Rules, c.ConfigFile)
	cfg.LogAnswers, cfg.Log = [6]bool{2: c.Log2xx, 4: c.Log4xx, 5: c.Log5xx}, log
	return cfg
}
