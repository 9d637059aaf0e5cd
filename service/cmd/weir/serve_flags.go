package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/settings"
)

// serveOwn lets requests override the limits of their rule.
type serveOwn struct {
	RequestsCanSetRate  *bool `short:"r" env:"WEIR_REQUESTS_CAN_SET_RATE,REQUESTS_CAN_SET_RATE" help:"Allow requests to override their rate with the parameter maxRequests."`
	RequestsCanModQueue *bool `env:"WEIR_REQUESTS_CAN_MOD_QUEUE,REQUESTS_CAN_MOD_QUEUE" help:"Allow requests to override their queue with the parameter maxRequestsInQueue."`
	OverrideMaxRequests int   `least:"1" default:"1000000" placeholder:"N" help:"Upper bound of the parameter maxRequests (${default})."`
	OverrideMaxQueue    int   `least:"1" default:"10000" placeholder:"N" help:"Upper bound of the parameter maxRequestsInQueue (${default})."`
}

// serveRuntime has the variables of envoyproxy/ratelimit for its files and its listener.
type serveRuntime struct {
	RuntimeRoot         string `hidden:"" env:"WEIR_RUNTIME_ROOT,RUNTIME_ROOT" help:"Without --rules: load RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY."`
	RuntimeSubdirectory string `hidden:"" env:"WEIR_RUNTIME_SUBDIRECTORY,RUNTIME_SUBDIRECTORY" help:"See --runtime-root."`
	RuntimeAppdirectory string `hidden:"" default:"config" env:"WEIR_RUNTIME_APPDIRECTORY,RUNTIME_APPDIRECTORY" help:"See --runtime-root."`
	GRPCHost            string `hidden:"" name:"grpc-host" env:"WEIR_GRPC_HOST,GRPC_HOST" help:"Without --grpc-listen, with --grpc-port: its host."`
	GRPCPort            int    `hidden:"" name:"grpc-port" least:"0" most:"65535" env:"WEIR_GRPC_PORT,GRPC_PORT" help:"Without --grpc-listen: its port."`
}

// useRuntime sets flags by the variables of envoyproxy/ratelimit.
func (c *serveCmd) useRuntime() {
	if c.Rules == "" && c.ConfigFile == "" && c.RuntimeRoot != "" {
		c.Rules = filepath.Join(c.RuntimeRoot, c.RuntimeSubdirectory, c.RuntimeAppdirectory)
	}
	if c.GRPC == "" && c.GRPCPort != 0 {
		c.GRPC = net.JoinHostPort(c.GRPCHost, strconv.Itoa(c.GRPCPort))
	}
}

// checkXDS returns an error if variables of envoyproxy/ratelimit, or those of gRPC, say that rules come by xDS.
func checkXDS(environ []string) error {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name == "CONFIG_TYPE" && value == "GRPC_XDS_SOTW" || value != "" && (strings.HasPrefix(name, "CONFIG_GRPC_XDS_") || strings.HasPrefix(name, "GRPC_XDS_")) {
			return cli.Usagef("$%s: weir serve gets no rules by xDS. Give files by --rules or $RUNTIME_ROOT, and unset the variable", name)
		}
	}
	return nil
}

// serveBound bounds what the server holds.
type serveBound struct {
	MaxWaiting int           `least:"0" default:"20000" placeholder:"N" help:"Requests of all keys that may wait at once; 0: none (${default})."`
	MaxLeases  int           `least:"1" default:"100000" placeholder:"N" help:"Leases of all keys that may be held at once (${default})."`
	MaxKey     int           `least:"1" default:"1024" placeholder:"BYTES" help:"Maximum length of a key (${default})."`
	MaxBody    settings.Size `least:"1" default:"4MiB" placeholder:"SIZE" help:"Maximum size of a batch (${default})."`
}

// serveLog configures the log.
type serveLog struct {
	LogFormat         string     `short:"l" default:"" enum:",text,json,system-default" env:"WEIR_LOG_FORMAT,LOG_FORMAT" placeholder:"NAME" help:"Log as text or json, or as package log of Go does: system-default (text)."`
	LogLevel          slog.Level `default:"info" env:"WEIR_LOG_LEVEL,LOG_LEVEL" placeholder:"LEVEL" help:"Log this level and above: debug, info, warn or error (${default})."`
	LogIncludesSource *bool      `env:"WEIR_LOG_INCLUDES_SOURCE,LOG_INCLUDES_SOURCE" help:"Log the file and line of the source code, too."`
	Log2xx            bool       `name:"log2xx" env:"WEIR_LOG2XX,LOG_2XX" help:"Log answers with status 2xx. Of all answers, at most 100 a second are logged."`
	Log4xx            bool       `name:"log4xx" env:"WEIR_LOG4XX,LOG_4XX" help:"Log answers with status 4xx; most are rejections."`
	Log5xx            bool       `name:"log5xx" default:"true" env:"WEIR_LOG5XX,LOG_5XX" help:"Log answers with status 5xx; --log5xx=false turns that off."`
}

// handler returns a handler of the log that writes to out.
func (l *serveLog) handler(out io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: l.LogLevel, AddSource: settings.Or(l.LogIncludesSource, false)}
	switch l.LogFormat {
	case "json":
		return slog.NewJSONHandler(out, opts)
	case "system-default":
		return newPlainHandler(out, opts)
	}
	return slog.NewTextHandler(out, opts)
}

// useGoCC sets the flags that are not given to the defaults of GoCC, with --gocc.
func (c *serveCmd) useGoCC() {
	if !c.GoCC {
		return
	}
	c.LogFormat = cmp.Or(c.LogFormat, "json")
	for _, flag := range []**bool{&c.LogIncludesSource, &c.RequestsCanSetRate, &c.RequestsCanModQueue} {
		*flag = cmp.Or(*flag, new(true))
	}
	if c.Listen == "" {
		c.Port = cmp.Or(c.Port, 8080)
	}
}

// overrides returns the upper bounds of overrides; 0 allows none.
func (o *serveOwn) overrides() (limit, queue int) {
	if settings.Or(o.RequestsCanSetRate, false) {
		limit = o.OverrideMaxRequests
	}
	if settings.Or(o.RequestsCanModQueue, false) {
		queue = o.OverrideMaxQueue
	}
	return limit, queue
}

// check checks the flags, and variables that are none.
func (c *serveCmd) check() error {
	if err := checkXDS(os.Environ()); err != nil {
		return err
	}
	if c.Rules != "" {
		for _, f := range []struct {
			name  string
			given bool
		}{
			{"--config-file", c.ConfigFile != ""}, {"--max-requests", c.MaxRequests != nil}, {"--window-millis", c.WindowMillis != nil},
			{"--max-requests-in-queue", c.MaxRequestsInQueue != nil}, {"--algorithm", c.GoCCDefaults.Algorithm != ""}, {"--gocc", c.GoCC},
		} {
			if f.given {
				return cli.Usagef("--rules and %s exclude each other: leave out %[1]s, or its environment variable, to use --rules", f.name)
			}
		}
	}
	if c.StoreURL != "" && c.State != "" {
		return cli.Usagef("--store and --state exclude each other: with a store, counts and leases are there")
	}
	if err := c.checkPeers(); err != nil {
		return err
	}
	if strings.ContainsAny(c.StorePrefix, "{}") {
		return cli.Usagef("--store-prefix = %q: must not contain braces, which select the slot of a key", c.StorePrefix)
	}
	if err := c.checkUpstream(); err != nil {
		return err
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return cli.Usagef("--tls-cert and --tls-key: give both, or none")
	}
	if c.Operators.AdminTLS && c.TLS.Cert == "" {
		return cli.Usagef("--admin-tls needs --tls-cert and --tls-key")
	}
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		return cli.Usagef("--client-ca needs --tls-cert and --tls-key")
	}
	if err := c.Decisions.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

// address returns the address for callers.
func (c *serveCmd) address() string {
	switch {
	case c.Listen != "":
		return c.Listen
	case c.Port != 0:
		return ":" + strconv.Itoa(c.Port)
	case len(c.PeerURLs) > 0: // they are on other hosts
		return ":8080"
	}
	return "127.0.0.1:8080"
}

// rules returns the rules of the flags, or of the file that they name.
func (c *serveCmd) rules() (*config.Rules, error) {
	if c.Rules != "" {
		rules, err := config.LoadWith(c.Rules, c.RateLimitOptions)
		if err != nil && ofProxy(c.Rules) {
			err = fmt.Errorf("%w\n%s is a file of weir proxy, not of weir serve", err, c.Rules)
		}
		return rules, err
	}
	return config.LoadGoCC(c.ConfigFile, c.GoCCDefaults)
}
