package main

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/internal/top"
)

type topCmd struct {
	URL      string        `arg:"" optional:"" placeholder:"URL" help:"The --admin address of weir serve or weir proxy. Without it: http://127.0.0.1:8081 or http://127.0.0.1:7001, the first one at which something listens."`
	Admin    string        `placeholder:"URL" help:"The address, instead of the argument, also as $WEIR_ADMIN."`
	Token    string        `placeholder:"SECRET" help:"A token that allows admin, with --admin-tokens there. As $WEIR_TOKEN it is not in the list of processes."`
	Interval time.Duration `least:"100ms" default:"1s" placeholder:"TIME" help:"How often to update the screen (${default})."`
	By       string        `default:"denied" enum:"denied,requests" placeholder:"ORDER" help:"Which keys of weir serve to list: denied (most denials) or requests (most requests) (${default})."`
	Once     bool          `help:"Print the state once, as plain text. This is also done if the output is not a terminal."`
	JSON     bool          `name:"json" help:"Print the state once, as a JSON object: what /-/live of weir proxy answers is its member live, what /-/status and /-/top of weir serve answer are status and top."`
}

// Run shows the state of a process until the user quits, or once.
func (c *topCmd) Run(ctx context.Context, std cli.Streams) error {
	cfg := top.Config{URLs: []string{top.ServeURL, top.ProxyURL}, Token: c.Token, Interval: c.Interval, By: c.By, JSON: c.JSON}
	if text := cmp.Or(c.URL, c.Admin); text != "" {
		to, err := adminURL(text)
		if err != nil {
			return err
		}
		cfg.URLs = []string{to}
	}
	if c.Once || c.JSON || !terminal.Is(std.Out) {
		return top.Once(ctx, cfg, std.Out)
	}
	return top.Run(ctx, cfg, std.Out)
}

// adminURL reads an address of operators. It also accepts an address, because on the host of weir
// serve the environment may have WEIR_ADMIN set for that.
func adminURL(text string) (string, error) {
	whole := text
	if !strings.Contains(text, "://") {
		if strings.HasPrefix(text, ":") {
			whole = "127.0.0.1" + text
		}
		whole = "http://" + whole
	}
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.HasPrefix(text, "unix:") {
		return "", cli.Usagef("%s: must be an http or https URL of --admin, such as http://127.0.0.1:8081", text)
	}
	return strings.TrimSuffix(whole, "/"), nil
}
