package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/service/internal/lab/arena"
	"github.com/weir-go/weir/service/internal/terminal"
)

type arenaCmd struct {
	Seeds     int      `default:"3" placeholder:"N" help:"Runs of each cell, with the seeds 1, 2, … (${default})."`
	Group     string   `default:"classic" enum:"classic,production,all" placeholder:"NAME" help:"Which scenarios: classic (one guard, one cause of overload), production (several guards, faults, outages, streams) or all (${default})."`
	Random    string   `placeholder:"SEED[..SEED]" help:"Play random scenarios instead, one for each seed, as a proxy and as a library. Prints goodput / oracle, and Auto's share of the best of the others. The policies are auto, aimd, vegas, gradient2 and static-knee, unless --policies says otherwise."`
	Count     int      `default:"40" placeholder:"N" help:"How many random scenarios, if --random names the first seed only (${default})."`
	YAML      bool     `name:"yaml" help:"Print the random scenario of the seed as a file for weir sim, and play none."`
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
	if c.YAML {
		return c.printYAML(std.Out)
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	var done atomic.Int64
	stop := terminal.Bar(std.Err, "simulated", cfg.Duration(), &done)
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
	return c.print(std.Out, result)
}

func (c *arenaCmd) print(w io.Writer, result arena.Result) error {
	var err error
	switch random := c.Random != ""; {
	case c.JSON && random:
		return printJSON(w, struct {
			arena.Result
			Comparison arena.Comparison `json:"comparison"`
		}{result, result.Compare(randomPolicies[0])})
	case c.JSON:
		return printJSON(w, result)
	case random:
		err = result.CompareTable(w, randomPolicies[0])
	default:
		err = result.Table(w)
	}
	if err != nil || !c.Detail {
		return err
	}
	return result.Detail(w)
}

// randomPolicies play random scenarios: the first, and what it is compared
// with.
var randomPolicies = []string{"auto", "aimd", "vegas", "gradient2", "static-knee"}

// maxRandom keeps the results in memory.
const maxRandom = 10_000

// seeds returns the first and the last seed of --random.
func (c *arenaCmd) seeds() (first, last uint64, err error) {
	from, to, isRange := strings.Cut(c.Random, "..")
	first, err = strconv.ParseUint(from, 10, 32)
	last = first + uint64(max(c.Count, 0)) - 1
	if isRange && err == nil {
		last, err = strconv.ParseUint(to, 10, 32)
	}
	switch {
	case err != nil:
		return 0, 0, usagef("--random=%s: must be a seed, such as 7, or a range of seeds, such as 1..40", c.Random)
	case !isRange && (c.Count < 1 || c.Count > maxRandom):
		return 0, 0, usagef("--count=%d: must be in [1, %d]", c.Count, maxRandom)
	case last < first:
		return 0, 0, usagef("--random=%s: the first seed must not be above the last", c.Random)
	case last-first >= maxRandom:
		return 0, 0, usagef("--random=%s: must be 1 to %d seeds", c.Random, maxRandom)
	}
	return first, last, nil
}

// rows returns the rows that are asked for.
func (c *arenaCmd) rows() (rows []arena.Row, err error) {
	if c.Random == "" {
		groups := []string{c.Group}
		if c.Group == "all" {
			groups = arena.Groups()
		}
		return arena.Rows(groups...)
	}
	first, last, err := c.seeds()
	for seed := first; err == nil && seed <= last; seed++ {
		var pair []arena.Row
		pair, err = arena.Random(seed)
		rows = append(rows, pair...)
	}
	return rows, err
}

// printYAML prints one random scenario, as a file has no more than one.
func (c *arenaCmd) printYAML(w io.Writer) error {
	if c.Random == "" {
		return usagef("--yaml: prints a random scenario: needs --random=SEED")
	}
	if !strings.Contains(c.Random, "..") {
		c.Count = 1
	}
	first, last, err := c.seeds()
	switch {
	case err != nil:
		return err
	case first != last:
		return usagef("--random=%s: with --yaml, must be one seed, such as %d: a file has one scenario", c.Random, first)
	}
	_, text, err := arena.RandomYAML(first)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
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
	rows, err := c.rows()
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
	all, names := arena.Policies(), c.Policies
	if c.Random != "" && len(names) == 0 {
		names = randomPolicies
	}
	if c.Random != "" && !slices.Contains(names, randomPolicies[0]) {
		return cfg, usagef("--policies=%s: must have %s among them with --random", strings.Join(names, ","), randomPolicies[0])
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p arena.Policy) bool { return p.Name == name }) {
			return cfg, usagef("--policies=%s: must be of %s", name, policyNames())
		}
	}
	for _, p := range all {
		if len(names) == 0 || slices.Contains(names, p.Name) {
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
