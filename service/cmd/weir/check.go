package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/rulecheck"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/settings"
)

type checkCmd struct {
	Path                    string        `arg:"" optional:"" help:"The rules: a YAML file, a directory of YAML files, a JSON file of GoCC, or files of envoyproxy/ratelimit."`
	Keys                    []string      `arg:"" optional:"" name:"key" help:"Show the rules and limits that apply to these keys. A descriptor is a key: domain|key=value|key2=value2."`
	Memory                  settings.Size `least:"65536" default:"64MiB" placeholder:"SIZE" help:"Check that the counts of the rules fit in this --memory of weir serve (${default})."`
	config.RateLimitOptions `embed:""`
	JSON                    bool `name:"json" help:"Print the result as JSON."`
	Schema                  bool `help:"Print a JSON schema of YAML rules, for editors, and end."`
}

// Run prints the limits of the keys, or the mistakes in the files.
func (c *checkCmd) Run(std streams) error {
	if c.Schema {
		return printJSON(std.Out, config.Schema())
	}
	var keys []string
	for _, key := range c.Keys {
		keys = append(keys, strings.TrimSpace(key))
	}
	report, err := rulecheck.Load(c.Path, int(c.Memory), c.RateLimitOptions, keys)
	if c.JSON {
		if err != nil {
			err = fmt.Errorf("%s: %d errors", c.Path, len(report.Errors))
		}
		return cmp.Or(printJSON(std.Out, report), err)
	}
	if err != nil {
		return err
	}
	return report.Print(std.Out)
}

// Validate is called by package kong.
func (c *checkCmd) Validate() error {
	if c.Schema != (c.Path == "") {
		return usagef("give either the path of the rules or --schema")
	}
	for _, key := range c.Keys {
		if _, err := decider.ParseKey(key, math.MaxInt); err != nil {
			return usagef("%q is not a key: a key is UTF-8 text without control characters, and not empty", key)
		}
	}
	return nil
}
