package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/internal/top"
)

type topCmd struct {
	Admin    string        `default:"http://127.0.0.1:8081" placeholder:"URL" help:"The --admin address of weir serve (${default})."`
	Token    string        `placeholder:"SECRET" help:"A token that allows admin, if weir serve runs with --admin-tokens. As $WEIR_TOKEN it is not in the list of processes."`
	Interval time.Duration `least:"100ms" default:"1s" placeholder:"TIME" help:"How often to update the screen (${default})."`
	By       string        `default:"denied" enum:"denied,requests" placeholder:"ORDER" help:"Which keys to list: denied (most denials) or requests (most requests) (${default})."`
	Once     bool          `help:"Print the state once, as plain text. This is also done if the output is not a terminal."`
}

// Run shows the state of a server until the user quits, or once.
func (c *topCmd) Run(ctx context.Context, std cli.Streams) error {
	to, err := adminURL(c.Admin)
	if err != nil {
		return err
	}
	cfg := top.Config{URL: to, Token: c.Token, Interval: c.Interval, By: c.By}
	if c.Once || !terminal.Is(std.Out) {
		return top.Once(ctx, cfg, std.Out)
	}
	return top.Run(ctx, cfg, std.Out)
}

// adminURL reads --admin. It also accepts an address, because on the host of weir
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
		return "", cli.Usagef("--admin=%s: must be an http or https URL, such as http://127.0.0.1:8081", text)
	}
	return strings.TrimSuffix(whole, "/"), nil
}
