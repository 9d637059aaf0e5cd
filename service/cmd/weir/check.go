package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/filedoc"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/rulecheck"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/settings"
)

type checkCmd struct {
	Path                    string        `arg:"" optional:"" placeholder:"PATH" help:"The rules: a YAML file of weir serve or weir proxy, a directory of YAML files, a JSON file of GoCC, or files of envoyproxy/ratelimit."`
	Keys                    []string      `arg:"" optional:"" name:"key" help:"Show the rules and limits that apply to these keys. A descriptor is a key: domain|key=value|key2=value2. For weir proxy, requests: \"POST /login X-Api-Key=abc address=203.0.113.7\"."`
	Proxy                   bool          `help:"The file is one of weir proxy. Without it, the content decides."`
	Memory                  settings.Size `least:"65536" default:"64MiB" placeholder:"SIZE" help:"Check that the counts of the rules fit in this --memory of weir serve (${default})."`
	config.RateLimitOptions `embed:""`
	checkStore              `embed:""`
	checkAgainst            `embed:"" group:"against"`
	JSON                    bool `name:"json" help:"Print the result as JSON."`
	Schema                  bool `help:"Print a JSON schema of YAML rules, for editors, and end. With --proxy: of those of weir proxy."`
	Reference               bool `help:"Explain each field of YAML rules, and end. With --proxy: of those of weir proxy."`
}

// Run prints the limits of the keys and the state of the store, or the mistakes in the files.
func (c *checkCmd) Run(ctx context.Context, std cli.Streams) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	switch {
	case c.Schema && c.Proxy:
		return cli.PrintJSON(std.Out, proxyrule.Schema())
	case c.Schema:
		return cli.PrintJSON(std.Out, config.Schema())
	case c.Reference:
		fields := config.Reference
		if c.Proxy {
			fields = proxyrule.Reference
		}
		_, err := io.WriteString(std.Out, filedoc.Lines(fields))
		return err
	case len(c.Against) > 0:
		return c.replay(ctx, std, c.Path, server.Config{Memory: int(c.Memory)}, c.RateLimitOptions, c.Keys, c.JSON)
	case c.Path != "" && (c.Proxy || ofProxy(c.Path)):
		return c.checkProxy(std)
	}
	if err := c.checkKeys(); err != nil {
		return err
	}
	store, err := c.open()
	if err != nil {
		return err
	}
	var report struct {
		*rulecheck.Report
		Store *redisstore.Report `json:"store,omitempty"`
	}
	if c.Path != "" {
		rules, failed := c.rules(store)
		report.Report, err = &rules, failed
	}
	if store != nil {
		defer store.Close()
		report.Store = c.check(ctx, store)
	}
	if c.JSON {
		if err != nil {
			err = fmt.Errorf("%s: %d errors", c.Path, len(report.Errors))
		}
		return cmp.Or(cli.PrintJSON(std.Out, report), errors.Join(err, unfit(report.Store)))
	}
	if err == nil && report.Report != nil {
		err = report.Report.Print(std.Out)
	}
	if report.Store != nil {
		err = errors.Join(err, printStore(std.Out, report.Store), unfit(report.Store))
	}
	return err
}

// rules checks the rules, also for a store if there is one, and looks the keys up.
func (c *checkCmd) rules(store *redisstore.Client) (rulecheck.Report, error) {
	var keys []string
	for _, key := range c.Keys {
		keys = append(keys, strings.TrimSpace(key))
	}
	cfg := server.Config{Memory: int(c.Memory)}
	if store != nil {
		cfg = cfg.Sharing(store.Cluster())
	}
	return rulecheck.Load(c.Path, cfg, c.RateLimitOptions, keys)
}

// checkFlags checks which flags are given together.
func (c *checkCmd) checkFlags() error {
	ends := c.Schema || c.Reference
	switch {
	case c.Schema && c.Reference, ends && c.Path != "":
		return cli.Usagef("give the path of the rules, --reference or --schema: each by itself")
	case !ends && c.Path == "" && c.StoreURL == "":
		return cli.Usagef(`expected "<path>", a file of rules, such as rules.yaml; --reference explains its fields, --store checks a store`)
	case len(c.Against) > 0 && (c.Proxy || c.Path == "" || c.StoreURL != ""):
		return cli.Usagef("--against: give rules of weir serve, without --proxy and --store")
	case len(c.Against) == 0 && (c.SaltFile != "" || c.KnownKeys != "" || c.MaxDenied != nil):
		return cli.Usagef("--salt-file, --known-keys and --max-denied need --against")
	case c.Proxy && c.StoreURL != "":
		return cli.Usagef("--store: is for rules of weir serve")
	}
	return nil
}

func (c *checkCmd) checkKeys() error {
	for _, key := range c.Keys {
		if _, err := decider.ParseKey(key, math.MaxInt); err != nil {
			return cli.Usagef("%q is not a key: a key is UTF-8 text without control characters, and not empty", key)
		}
	}
	return nil
}
