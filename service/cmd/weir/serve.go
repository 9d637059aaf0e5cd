package main

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/httpapi"
	"github.com/weir-go/weir/service/internal/settings"
)

type serveCmd struct {
	Listen string `placeholder:"ADDR" help:"Address for callers, HTTP/1.1 and HTTP/2 (127.0.0.1:8080)."`
	Port   int    `least:"0" most:"65535" short:"p" env:"PORT" placeholder:"N" help:"Listen on this port of all addresses, instead of --listen. (The variable is not $$WEIR_PORT, because Kubernetes sets that for a Service named weir.)"`
	Admin  string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Address for operators: the status page, /-/ready, /-/reload, /metrics and more. Keep it private (${default})."`

	Rules         string        `placeholder:"PATH" help:"The rules: a YAML file, or a directory of YAML files. Changes are loaded automatically."`
	Tokens        string        `placeholder:"FILE" help:"A YAML file with the tokens of clients and what each may do. Without it, every client may use every endpoint."`
	State         string        `placeholder:"FILE" help:"Save counts and leases to this file, and restore them at the next start."`
	StateInterval time.Duration `least:"1s" default:"1m" placeholder:"TIME" help:"How often to save the state while the server runs, in case it crashes (${default})."`
	WatchInterval time.Duration `least:"1ms" default:"10s" placeholder:"TIME" help:"How often to compare the content of files. Sizes and times are compared five times a second (${default})."`

	serveTLS   `embed:""`
	serveOne   `embed:""`
	serveOwn   `embed:""`
	serveBound `embed:""`
	serveLog   `embed:""`

	Grace             time.Duration `least:"0s" default:"30s" placeholder:"TIME" help:"After SIGTERM or Ctrl-C: how long waiting requests may still wait for their turn (${default})."`
	Drain             string        `default:"finish" enum:"finish,refuse" placeholder:"HOW" help:"After SIGTERM or Ctrl-C: finish lets waiting requests get their turn, refuse rejects them at once (${default})."`
	NoRatelimitFields bool          `help:"Omit the header fields RateLimit and RateLimit-Policy from answers."`

	ServerType   string   `short:"s" hidden:"" env:"WEIR_SERVER_TYPE,SERVER_TYPE" help:"Accepted for compatibility with GoCC, without effect: HTTP/1.1 and HTTP/2 are always served."`
	InstanceURLs []string `short:"i" hidden:"" name:"instance-urls" env:"WEIR_INSTANCE_URLS,INSTANCE_URLS" help:"A flag of GoCC that is not supported."`
}

// Run serves until ctx ends, and then drains.
func (c *serveCmd) Run(ctx context.Context, std streams) error {
	if err := c.check(); err != nil {
		return err
	}
	d, err := daemon.New(c.config(c.logger(std.Err)))
	if err != nil {
		return err
	}
	ln, admin, err := listenBoth(c.address(), c.Admin)
	if err != nil {
		return err
	}
	return d.Run(ctx, ln, admin)
}

func (c *serveCmd) config(log *slog.Logger) daemon.Config {
	cfg := daemon.Config{
		Server: server.Config{Memory: int(c.Memory), MaxWaiting: settings.OrNone(c.MaxWaiting), MaxLeases: c.MaxLeases},
		API: httpapi.Config{
			NoFields: c.NoRatelimitFields, MaxKey: c.MaxKey, MaxBody: int(c.MaxBody), BodyTimeout: c.ClientTimeout, AnswerTimeout: c.ClientTimeout,
		},
		Rules: c.rules, RulesPath: cmp.Or(c.Rules, c.ConfigFile), Tokens: c.Tokens,
		TLS:           daemon.TLS{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.ClientCA},
		WatchInterval: c.WatchInterval, State: c.State, StateInterval: c.StateInterval,
		MaxConnections: c.MaxConnections, ClientTimeout: c.ClientTimeout, Grace: c.Grace, Drain: c.Drain,
		LogAnswers: [6]bool{2: c.Log2xx, 4: c.Log4xx, 5: c.Log5xx}, Log: log,
	}
	limit, queue := c.overrides()
	cfg.Server.MaxLimit, cfg.Server.MaxQueue = limit, queue
	cfg.API.MaxLimit, cfg.API.MaxQueue = limit, queue
	return cfg
}
