package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/supervisor"
)

// proxyRules are the flags for a file of rules.
type proxyRules struct {
	Rules         string        `placeholder:"FILE" help:"Rates per client, limits per class of routes, priorities, tenants, deadlines and caches: a YAML file (docs/proxy.md; weir check --proxy --reference explains its fields). Changes are loaded automatically, and upon SIGHUP or POST /-/reload."`
	Shadow        bool          `help:"Decide and count, but reject no request, let none wait, and answer none from a cache."`
	WatchInterval time.Duration `least:"1ms" default:"10s" placeholder:"TIME" group:"bounds" help:"How often to compare the content of --rules. Size and time are compared five times a second (${default})."`
}

// loader returns the function that loads the rules, and logs warnings about them; nil without a file.
func (c *proxyRules) loader(log *slog.Logger) func() (*proxyrule.Rules, error) {
	if c.Rules == "" {
		return nil
	}
	return func() (*proxyrule.Rules, error) {
		rules, err := proxyrule.Load(c.Rules)
		if err == nil {
			for _, w := range rules.Warnings {
				log.Warn("a part of the rules rejects all of its requests", "detail", w)
			}
		}
		return rules, err
	}
}

// watcher returns a Watcher of the file; nil without one.
func (c *proxyRules) watcher() *rulefile.Watcher {
	if c.Rules == "" {
		return nil
	}
	return rulefile.NewWatcher([]string{c.Rules}, c.WatchInterval)
}

// refused returns an error of proxy.New: the flags are wrong, or the file.
func (c *proxyRules) refused(err error) error {
	if c.Rules != "" {
		if _, wrong := proxyrule.Load(c.Rules); wrong != nil {
			if _, err := config.Load(c.Rules); err == nil {
				wrong = fmt.Errorf("%w\n%s is a file of weir serve, not of weir proxy", wrong, c.Rules)
			}
			return fmt.Errorf("--rules: %w", wrong)
		}
	}
	return cli.Usagef("%s", strings.Replace(strings.TrimPrefix(err.Error(), "proxy: "), "Origins = ", "--origin=", 1))
}

// reloads reloads the rules when the file changes and upon SIGHUP, until ctx ends and stop
// is called.
func (c *proxyRules) reloads(ctx context.Context, watcher *rulefile.Watcher, p *proxy.Proxy) (stop func()) {
	reload := func() {
		if watcher != nil {
			_, _ = p.Reload() // the outcome is in the log
		}
	}
	if watcher != nil {
		go watcher.Run(ctx, reload)
	}
	return supervisor.OnHangup(reload) // also without a file: by default, SIGHUP ends the process
}
