package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/lab/internal/arena"
)

type arenaCmd struct {
	Seeds     int      `least:"1" most:"1000" default:"3" placeholder:"N" help:"Runs of each scenario and policy, with the seeds 1, 2, … (${default})."`
	Group     string   `default:"" enum:",classic,production,street,search,all" placeholder:"NAME" help:"Scenarios to run: classic (one limit, one cause of overload), production (several limits, faults, outages, streams), street (routes that share a database, and clients that leave), search (limits that are hard to find) or all (classic)."`
	Random    string   `placeholder:"SEED[..SEED]" help:"Run a random scenario for each of these seeds, as a proxy and as a library, instead of --group. Prints goodput relative to an oracle, and that of auto relative to the best other policy. The policies are auto, aimd, vegas, gradient2 and static-knee, unless --policies names others."`
	Kind      string   `choices:"${kinds}" placeholder:"NAME" help:"Make all random scenarios of this kind: ${kinds}. Without it, a seed has a scenario of one of the first fourteen kinds, and one seed in three has another, of one of the last three."`
	Count     *int     `placeholder:"N" help:"Number of random scenarios, if --random has only the first seed (40)."`
	YAML      bool     `name:"yaml" help:"Print the random scenario of the seed as a file for weirlab sim, without running it."`
	Only      []string `placeholder:"NAME" help:"Run only the scenarios whose names contain one of these texts."`
	Policies  []string `choices:"${policies}" placeholder:"NAME" help:"Run only these policies: ${policies}."`
	Deadlines bool     `help:"Show the policies the deadlines of requests."`
	Out       string   `placeholder:"DIR" help:"Draw a heat map of the scores into this directory."`
	Format    string   `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Format of the heat map: svg or png (${default})."`
	JSON      bool     `name:"json" help:"Print the results as JSON, including the parts of each score."`
	Detail    bool     `help:"Also print the parts of each score."`
}

// Run runs every policy in every scenario, and prints the scores.
func (c *arenaCmd) Run(ctx context.Context, std cli.Streams) error {
	if c.YAML {
		return c.printYAML(std.Out)
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	var done atomic.Int64
	stop := terminal.TerminalProgress(std.Err, "simulated", cfg.Duration(), &done)
	result, err := arena.Run(ctx, cfg, &done)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: there are no results")
	case err != nil:
		return err
	}
	if c.Out != "" {
		draw := func(w io.Writer) error { return result.Draw(w, c.Format) }
		if err := writeFile(std.Err, c.Out, "arena."+c.Format, draw); err != nil {
			return err
		}
	}
	return c.print(std.Out, result)
}

func (c *arenaCmd) print(w io.Writer, result arena.Result) error {
	var err error
	switch random := c.Random != ""; {
	case c.JSON && random:
		return cli.PrintJSON(w, struct {
			arena.Result
			Comparison arena.Comparison `json:"comparison"`
		}{result, result.Compare(randomPolicies[0])})
	case c.JSON:
		return cli.PrintJSON(w, result)
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

// randomPolicies run in random scenarios. The first is compared with the others.
var randomPolicies = []string{"auto", "aimd", "vegas", "gradient2", "static-knee"}

// maxRandom bounds the memory for results.
const maxRandom = 10_000

// seeds returns the first and the last seed of --random and --count.
func (c *arenaCmd) seeds() (first, last uint64, err error) {
	from, to, isRange := strings.Cut(c.Random, "..")
	first, err = strconv.ParseUint(from, 10, 32)
	count := settings.Or(c.Count, 40)
	if c.YAML {
		count = 1
	}
	last = first + uint64(max(count, 0)) - 1
	if isRange && err == nil {
		last, err = strconv.ParseUint(to, 10, 32)
	}
	switch {
	case err != nil:
		err = cli.Usagef("--random=%s: must be a seed, such as 7, or a range of seeds, such as 1..40", c.Random)
	case c.Kind != "" && !slices.Contains(arena.RandomKinds(), c.Kind):
		err = cli.Usagef("--kind=%s: must be one of %s", c.Kind, randomKinds())
	case c.Group != "":
		err = cli.Usagef("--group=%s and --random exclude each other: random scenarios have no groups", c.Group)
	case isRange && c.Count != nil:
		err = cli.Usagef("--count=%d and the range --random=%s exclude each other: the range has its own number",
			*c.Count, c.Random)
	case count < 1 || count > maxRandom:
		err = cli.Usagef("--count=%d: must be in [1, %d]", count, maxRandom)
	case last < first:
		err = cli.Usagef("--random=%s: the first seed must not be above the last", c.Random)
	case last-first >= maxRandom:
		err = cli.Usagef("--random=%s: must be 1 to %d seeds", c.Random, maxRandom)
	}
	return first, last, err
}

// rows returns the scenarios that the flags select.
func (c *arenaCmd) rows() (rows []arena.Row, err error) {
	switch {
	case c.Random == "" && c.Count != nil:
		return nil, cli.Usagef("--count=%d: needs --random=SEED: it is the number of random scenarios", *c.Count)
	case c.Random == "" && c.Kind != "":
		return nil, cli.Usagef("--kind=%s: needs --random=SEED: it is the kind of the random scenarios", c.Kind)
	case c.Random == "" && c.Group == "all":
		return arena.Rows(arena.Groups()...)
	case c.Random == "":
		return arena.Rows(cmp.Or(c.Group, "classic"))
	}
	first, last, err := c.seeds()
	for seed := first; err == nil && seed <= last; seed++ {
		var pair []arena.Row
		pair, err = arena.Random(seed, c.Kind)
		rows = append(rows, pair...)
	}
	return rows, err
}

// printYAML prints one random scenario.
func (c *arenaCmd) printYAML(w io.Writer) error {
	switch {
	case c.Random == "":
		return cli.Usagef("--yaml: needs --random=SEED: it prints a random scenario")
	case c.Count != nil:
		return cli.Usagef("--count=%d and --yaml exclude each other: a file has one scenario", *c.Count)
	}
	first, last, err := c.seeds()
	if err == nil && first != last {
		err = cli.Usagef("--random=%s: with --yaml, must be one seed, such as %d: a file has one scenario", c.Random, first)
	}
	if err != nil {
		return err
	}
	_, text, err := arena.RandomYAML(first, c.Kind)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

func (c *arenaCmd) config() (arena.Config, error) {
	cfg := arena.Config{Seeds: c.Seeds, Deadlines: c.Deadlines}
	rows, err := c.rows()
	if err != nil {
		return cfg, err
	}
	cfg.Rows = named(rows, c.Only, func(row arena.Row) string { return row.Name })
	if len(cfg.Rows) == 0 {
		return cfg, cli.Usagef("--only=%s: no scenario has this text in its name", strings.Join(c.Only, ","))
	}
	all, names := arena.Policies(), c.Policies
	if c.Random != "" && len(names) == 0 {
		names = randomPolicies
	}
	if c.Random != "" && !slices.Contains(names, randomPolicies[0]) {
		return cfg, cli.Usagef("--policies=%s: must include %s with --random", strings.Join(names, ","), randomPolicies[0])
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p arena.Policy) bool { return p.Name == name }) {
			return cfg, cli.Usagef("--policies=%s: must be one of %s", name, policyNames())
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
	return names(arena.Policies(), func(p arena.Policy) string { return p.Name })
}

func randomKinds() string { return strings.Join(arena.RandomKinds(), ", ") }
