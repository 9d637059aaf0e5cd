package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/rulecheck"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/settings"
)

// checkDetail follows the flags in --help.
const checkDetail = `The exit status is 1 if the rules have mistakes, if a store is not fit, or if more requests would be denied than --max-denied allows.`

// checkAgainst says on which recorded requests to try rules.
type checkAgainst struct {
	Against   []string        `placeholder:"PATH" help:"Tell which of these requests the rules would have denied, and which were: files or directories of weir serve --record-decisions, of one instance or of all."`
	SaltFile  string          `placeholder:"FILE" help:"The salt of the fingerprints, if weir serve had --decisions-salt-file."`
	KnownKeys string          `placeholder:"FILE" help:"Keys that may be in the recording, one in each line: they are named, and patterns can be compared with parts of their segments. Keys after the rules count, too."`
	MaxDenied *settings.Share `placeholder:"SHARE" help:"The most requests that may be denied more than were, such as 0.1%. Requests of which that is not known count as such."`
}

// replay tells what the rules would have done.
func (c *checkAgainst) replay(ctx context.Context, std cli.Streams, path string, cfg server.Config, o config.RateLimitOptions, keys []string, asJSON bool) error {
	rules, err := config.LoadWith(path, o)
	if err != nil {
		return err
	}
	from := rulecheck.Recording{Files: c.Against, Keys: keys}
	if c.SaltFile != "" {
		salt, err := decisionlog.LoadSalt(c.SaltFile, false)
		if err != nil {
			return cli.Usagef("--salt-file: %v", err)
		}
		from.Salt = &salt
	}
	if c.KnownKeys != "" {
		text, err := os.ReadFile(c.KnownKeys)
		if err != nil {
			return cli.Usagef("--known-keys: %v", err)
		}
		from.Keys = append(from.Keys, strings.Split(string(text), "\n")...)
	}
	result, err := rulecheck.Replay(ctx, rules, cfg, from)
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	if asJSON {
		err = cli.PrintJSON(std.Out, result)
	} else {
		err = result.Print(std.Out)
	}
	return cmp.Or(err, c.tooMany(result))
}

// tooMany returns an error if more requests would be denied than may be, or if there are none to tell it from.
func (c *checkAgainst) tooMany(a *rulecheck.Against) error {
	switch {
	case c.MaxDenied == nil:
		return nil
	case a.Requests+a.Unknown.Requests == 0:
		return errors.New("--max-denied: no requests are recorded")
	case a.Share() <= float64(*c.MaxDenied):
		return nil
	}
	unknown := ""
	if n := a.Unknown.Requests; n > 0 {
		unknown = fmt.Sprintf(", with %d requests that are not known", n)
	}
	return fmt.Errorf("%.3g %% of the requests would be denied more%s: at most %.3g %% may be", 100*a.Share(), unknown, 100*float64(*c.MaxDenied))
}
