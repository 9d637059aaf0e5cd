package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/lab/internal/advise"
	"github.com/weir-go/weir/service/lab/internal/figure"
	"github.com/weir-go/weir/service/lab/internal/incident"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

type adviseCmd struct {
	File string `arg:"" name:"file" placeholder:"FILE" help:"A recording (docs/recording.md), such as that of weirlab load --record; - is the standard input."`

	SLO  *objective `name:"slo" placeholder:"QUANTILE=TIME" help:"Objective of latency to advise for, such as p95=200ms (none)."`
	Load *multiple  `placeholder:"FACTOR" help:"Load to size for, as a multiple of the busiest time of the recording, such as 1.5x (1x)."`
	Seed uint64     `default:"1" placeholder:"N" help:"Seed of the bootstrap intervals (${default})."`

	Report pageFile `placeholder:"FILE" help:"Write a page with plots into this .html file."`
	JSON   bool     `name:"json" help:"Print the advice as JSON."`
}

// adviseDetail follows the flags in --help.
const adviseDetail = `The knee is the number of requests in flight with which the throughput is the highest; more only wait. docs/recording.md says how it is found.

If something went wrong within the recording, it says what, when that began, and which limit would have helped. docs/replay.md says how that is found.

The exit status is 1 if the recording has too little for any advice, and no incident begins within it.`

// An objective is a quantile of latency and the most that it may be.
type objective struct {
	quantile float64
	target   time.Duration
}

// UnmarshalText reads p95=200ms.
func (o *objective) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), "=")
	number, isQuantile := strings.CutPrefix(name, "p")
	q, err := strconv.ParseFloat(number, 64)
	d, errTime := time.ParseDuration(value)
	if !ok || !isQuantile || err != nil || errTime != nil || !(q > 0 && q < 100) || d <= 0 {
		return fmt.Errorf("%q: want a quantile and a time, such as p95=200ms", text)
	}
	*o = objective{q / 100, d}
	return nil
}

// A multiple is a factor such as 1.5x or 1.5.
type multiple float64

// UnmarshalText reads it.
func (m *multiple) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || !(v > 0 && v <= 1000) {
		return fmt.Errorf("%q: want a factor, greater than 0 and at most 1000, such as 1.5x", text)
	}
	*m = multiple(v)
	return nil
}

// Run reads the recording and prints the advice.
func (c *adviseCmd) Run(ctx context.Context, std cli.Streams) error {
	f, err := openRecording(c.File, "weirlab advise", std.Err)
	if err != nil {
		return err
	}
	o := advise.Options{Seed: c.Seed}
	if c.SLO != nil {
		o.Quantile, o.Target = c.SLO.quantile, c.SLO.target
	}
	if c.Load != nil {
		o.Load = float64(*c.Load)
	}
	a := advise.Advise(f, o)
	happened := incident.Find(f)
	if err := happened.Recommend(ctx, f, c.Seed); err != nil {
		return figure.ErrInterrupted
	}
	if err := c.print(std.Out, a, happened); err != nil {
		return err
	}
	err = c.Report.write(std.Err, func(w io.Writer) error {
		p, err := a.Page()
		if err != nil {
			return err
		}
		happened.Tell(p)
		return p.Write(w)
	})
	if err == nil && !a.Fitted() && happened.Cause == incident.None {
		err = fmt.Errorf("%s: too little for any advice", f.Name)
	}
	return err
}

func (c *adviseCmd) print(w io.Writer, a *advise.Advice, happened *incident.Incident) error {
	if c.JSON {
		return cli.PrintJSON(w, adviceAndIncident{a, happened})
	}
	if err := a.Table(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return happened.Table(w)
}

// adviceAndIncident is the output of --json.
type adviceAndIncident struct {
	*advise.Advice
	Incident *incident.Incident `json:"incident"`
}

// openRecording reads a recording, of which - is the standard input, and says on stderr what of it is not read.
func openRecording(name, command string, stderr io.Writer) (*recorded.File, error) {
	var f *recorded.File
	var err error
	if name == "-" {
		f, err = recorded.Read(os.Stdin, "the standard input")
	} else {
		f, err = recorded.Open(name)
	}
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	if note := f.Note(); note != "" {
		fmt.Fprintf(stderr, "%s: %s\n", command, note)
	}
	return f, nil
}
