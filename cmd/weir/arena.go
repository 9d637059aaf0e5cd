package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/lab/arena"
)

type arenaCmd struct {
	Seeds     int      `default:"3" placeholder:"N" help:"Runs of each cell, with the seeds 1, 2, … (${default})."`
	Group     string   `default:"classic" enum:"classic,production,all" placeholder:"NAME" help:"Which scenarios: classic (one guard, one cause of overload), production (several guards, faults, outages, streams) or all (${default})."`
	Only      []string `placeholder:"NAME,.." help:"Only the scenarios whose names contain one of these."`
	Policies  []string `placeholder:"NAME,.." help:"Only these policies: ${policies}."`
	Deadlines bool     `help:"Let the guards see the callers' deadlines."`
	Out       string   `placeholder:"DIR" help:"Draw a heat map of the matrix into this directory."`
	Format    string   `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Of the picture: svg or png (${default})."`
	JSON      bool     `name:"json" help:"Print the results as JSON, what each score consists of included."`
	Detail    bool     `help:"Print what each score consists of, too."`
}

// maxSeeds keeps the results in memory.
const maxSeeds = 1000

// Run runs the matrix and prints it.
func (c *arenaCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	var done atomic.Int64
	stop := simProgress(std.Err, cfg.Duration(), &done)
	result, err := arena.Run(ctx, cfg, &done)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: half a matrix shows nothing")
	case err != nil:
		return err
	}
	if c.Out != "" {
		if err := c.draw(std.Err, result); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if c.JSON {
		return printJSON(std.Out, result)
	}
	if err := result.Table(std.Out); err != nil || !c.Detail {
		return err
	}
	return result.Detail(std.Out)
}

func (c *arenaCmd) draw(stderr io.Writer, result arena.Result) error {
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return err
	}
	name := filepath.Join(c.Out, "arena."+c.Format)
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(result.Draw(file, c.Format), file.Close()); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "wrote", name)
	return nil
}

func (c *arenaCmd) config() (arena.Config, error) {
	cfg := arena.Config{Seeds: c.Seeds, Deadlines: c.Deadlines}
	if c.Seeds < 1 || c.Seeds > maxSeeds {
		return cfg, usagef("--seeds=%d: must be in [1, %d]", c.Seeds, maxSeeds)
	}
	groups := []string{c.Group}
	if c.Group == "all" {
		groups = arena.Groups()
	}
	rows, err := arena.Rows(groups...)
	if err != nil {
		return cfg, err
	}
	for _, row := range rows {
		if len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(part string) bool { return strings.Contains(row.Name, part) }) {
			cfg.Rows = append(cfg.Rows, row)
		}
	}
	if len(cfg.Rows) == 0 {
		return cfg, usagef("--only=%s: no scenario has such a name", strings.Join(c.Only, ","))
	}
	all := arena.Policies()
	for _, name := range c.Policies {
		if !slices.ContainsFunc(all, func(p arena.Policy) bool { return p.Name == name }) {
			return cfg, usagef("--policies=%s: must be of %s", name, policyNames())
		}
	}
	for _, p := range all {
		if len(c.Policies) == 0 || slices.Contains(c.Policies, p.Name) {
			cfg.Policies = append(cfg.Policies, p)
		}
	}
	return cfg, nil
}

func policyNames() string {
	var names []string
	for _, p := range arena.Policies() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
