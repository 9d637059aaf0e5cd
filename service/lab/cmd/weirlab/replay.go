package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/replay"
)

type replayCmd struct {
	File string `arg:"" name:"file" placeholder:"FILE" help:"A recording (docs/recording.md); - is the standard input."`

	Limit       []string        `sep:"none" placeholder:"LIMIT" help:"What would have happened with this limit: auto, none, or a number of requests in flight; can be repeated (auto, as many as there are workers, none)."`
	Queue       *int            `least:"0" placeholder:"N" help:"Requests that may wait for the limit (1000)."`
	MaxWait     *time.Duration  `least:"1ms" placeholder:"TIME" help:"How long a request may wait for the limit (500ms)."`
	RetryBudget *settings.Share `placeholder:"SHARE" help:"Callers send a request that was not served again, twice at most, for at most this share of the requests, such as 10% (only the retries in the recording)."`
	Workers     int             `default:"0" placeholder:"N" help:"Workers of the service; 0: as the recording tells (${default})."`

	RecordedLimit   *replay.Limit  `placeholder:"LIMIT" help:"The limit that was in force: auto, none, or a number (as the recording tells)."`
	RecordedQueue   *int           `least:"0" placeholder:"N" help:"The queue of --recorded-limit (1000)."`
	RecordedMaxWait *time.Duration `least:"1ms" placeholder:"TIME" help:"How long a request could wait for --recorded-limit (500ms)."`

	Seeds  int    `least:"1" most:"1000" default:"20" placeholder:"N" help:"Runs of each limit, with other random numbers (${default})."`
	Seed   uint64 `default:"1" placeholder:"N" help:"Seed of the first run (${default})."`
	Out    string `placeholder:"DIR" help:"Draw a plot into this directory."`
	Format string `default:"svg" enum:"svg,png" placeholder:"KIND" help:"Format of the plot: svg or png (${default})."`

	Report pageFile `placeholder:"FILE" help:"Write a page with plots into this .html file."`
	JSON   bool     `name:"json" help:"Print the result as JSON."`
}

// replayDetail follows the flags in --help.
const replayDetail = `First, the recording is replayed with the limit that was in force. If that does not show what happened, the model does not hold: it says why, and the exit status is 1. docs/replay.md has more.`

// options checks the flags that depend on each other.
func (c *replayCmd) options() (o replay.Options, err error) {
	o = replay.Options{Workers: c.Workers, Seeds: c.Seeds, Seed: c.Seed}
	if c.Workers < 0 || c.Workers > 1_000_000 {
		return o, cli.Usagef("--workers=%d: must be in [0, 1000000]", c.Workers)
	}
	if c.RecordedLimit == nil && (c.RecordedQueue != nil || c.RecordedMaxWait != nil) {
		return o, cli.Usagef("--recorded-queue and --recorded-max-wait need --recorded-limit")
	}
	if o.Before = c.RecordedLimit; o.Before != nil {
		if o.Before.Name == "none" && (c.RecordedQueue != nil || c.RecordedMaxWait != nil) {
			return o, cli.Usagef("--recorded-limit=none has no queue")
		}
		o.Before.Queue, o.Before.MaxWait = c.RecordedQueue, c.RecordedMaxWait
	}
	retries := 0.0
	if c.RetryBudget != nil {
		retries = float64(*c.RetryBudget)
	}
	bounded, seen := false, map[string]bool{}
	for _, text := range c.Limit {
		var l replay.Limit
		if err := l.UnmarshalText([]byte(text)); err != nil {
			return o, cli.Usagef("--limit=%v", err)
		}
		if seen[l.String()] {
			return o, cli.Usagef("--limit=%s is given twice", l)
		}
		seen[l.String()] = true
		if l.Name != "none" {
			bounded, l.Queue, l.MaxWait = true, c.Queue, c.MaxWait
		}
		o.Policies = append(o.Policies, replay.Policy{Limit: l, Retries: retries})
	}
	if len(c.Limit) == 0 && (c.Queue != nil || c.MaxWait != nil || c.RetryBudget != nil) {
		return o, cli.Usagef("--queue, --max-wait and --retry-budget need a --limit")
	}
	if !bounded && (c.Queue != nil || c.MaxWait != nil) {
		return o, cli.Usagef("--limit=none has no queue: --queue and --max-wait need another --limit")
	}
	return o, nil
}

// Run replays the recording, prints the table and draws the plot.
func (c *replayCmd) Run(ctx context.Context, std cli.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	f, err := openRecording(c.File, "weirlab replay", std.Err)
	if err != nil {
		return err
	}
	r, err := replay.Run(ctx, f, o)
	switch {
	case ctx.Err() != nil:
		return figure.ErrInterrupted
	case err != nil:
		return err
	}
	if c.Out != "" {
		name := strings.TrimSuffix(filepath.Base(f.Name), filepath.Ext(f.Name))
		if c.File == "-" {
			name = "replay"
		}
		if err := writeFile(std.Err, c.Out, name+"."+c.Format, func(w io.Writer) error { return r.Draw(w, c.Format) }); err != nil {
			return err
		}
	}
	if c.JSON {
		err = cli.PrintJSON(std.Out, r)
	} else {
		err = r.Table(std.Out)
	}
	if err == nil {
		err = c.Report.write(std.Err, r.Page)
	}
	if err == nil && !r.Holds {
		err = errors.New("the model does not hold")
	}
	return err
}
