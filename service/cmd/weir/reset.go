package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/terminal"
)

type resetCmd struct {
	Keys    []string      `arg:"" name:"key" help:"The keys whose tokens return. Each has its whole limit again, under all rules with a rate that match it. A bucket that keys share (per: rule) is full for all of them."`
	Admin   string        `default:"http://127.0.0.1:8081" placeholder:"URL" help:"The --admin address of weir serve; with --peers or --store, that of any instance (${default})."`
	Token   string        `placeholder:"SECRET" help:"A token that allows admin, if weir serve runs with --admin-tokens. As $WEIR_TOKEN it is not in the list of processes."`
	Timeout time.Duration `least:"1ms" default:"10s" placeholder:"TIME" help:"How long the answer about a key may take (${default})."`
	JSON    bool          `name:"json" help:"Print a JSON object for each key."`
}

// Run resets the keys in turn. It goes on after a key that cannot be reset, and fails then.
func (c *resetCmd) Run(ctx context.Context, std cli.Streams) error {
	to, err := adminURL(c.Admin)
	if err != nil {
		return err
	}
	var failed error
	for _, key := range c.Keys {
		done, err := c.reset(ctx, to, key)
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", terminal.Escape(key), err))
		case c.JSON:
			failed = errors.Join(failed, json.NewEncoder(std.Out).Encode(done))
		default:
			for _, r := range done.Rules {
				fmt.Fprintf(std.Out, "%s: rule %s: %d tokens returned\n", terminal.Escape(done.Key), r.Rule, r.Returned)
			}
		}
	}
	return failed
}

// maxResetAnswer bounds an answer, in bytes.
const maxResetAnswer = 16 << 20

func (c *resetCmd) reset(ctx context.Context, to, key string) (done adminapi.Reset, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to+"/-/reset?"+url.Values{"key": {key}}.Encode(), nil)
	if err != nil {
		return done, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return done, fmt.Errorf("nothing listens at %s: start weir serve, or give its address with --admin", to)
	case err != nil:
		return done, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResetAnswer))
	if err != nil {
		return done, err
	}
	if resp.StatusCode != http.StatusOK {
		var e operator.Error
		if json.Unmarshal(text, &e) != nil || e.Error == "" {
			e.Error = strings.TrimSpace(string(text[:min(len(text), 200)]))
		}
		return done, fmt.Errorf("%s: %s", resp.Status, e.Error)
	}
	if err := json.Unmarshal(text, &done); err != nil {
		return done, fmt.Errorf("not an answer of weir serve: %w", err)
	}
	return done, nil
}
