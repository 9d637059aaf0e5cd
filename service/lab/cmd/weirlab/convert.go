package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/lab/internal/convert"
)

type convertCmd struct {
	File string `arg:"" name:"file" placeholder:"FILE" help:"A recording, CSV, an access log of nginx or Envoy, or what k6 run --out json=FILE writes; - is the standard input."`

	From      string `enum:"auto,recording,csv,nginx,envoy,k6" default:"auto" placeholder:"FORMAT" help:"The format of the file: recording, csv, nginx, envoy or k6 (by its first line)."`
	LogFormat string `placeholder:"TEXT" help:"The log_format of nginx, or the format of Envoy's access log. Without it: of nginx ${nginx}; of Envoy, its default."`
	To        string `enum:"auto,recording,csv" default:"auto" placeholder:"FORMAT" help:"recording or csv (a recording as csv, and all else as a recording)."`
	Out       string `short:"o" placeholder:"FILE" help:"Write to this file (the standard output)."`
}

// convertDetail follows the flags in --help.
const convertDetail = `docs/recording.md has the formats, and what each of them lacks. weirlab advise reads the result.`

// Run converts the file.
func (c *convertCmd) Run(_ context.Context, std cli.Streams) error {
	in, name := io.Reader(os.Stdin), "the standard input"
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return cli.Usagef("%v", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, c.File
	}
	from := convert.Source{Layout: c.LogFormat}
	if c.From != "auto" {
		from.Format = convert.Format(c.From)
	}
	switch {
	case c.LogFormat == "" || from.Format == convert.Nginx || from.Format == convert.Envoy:
	case from.Format == "" && strings.Contains(c.LogFormat, "%START_TIME"):
		from.Format = convert.Envoy
	case from.Format == "" && strings.Contains(c.LogFormat, "$"):
		from.Format = convert.Nginx
	default:
		return cli.Usagef("--log-format is for --from nginx and envoy")
	}
	log, err := convert.Read(in, from)
	if err != nil {
		return cli.Usagef("%s: %s", name, strings.TrimPrefix(err.Error(), "recording: "))
	}
	write := log.WriteRecording
	if c.To == "csv" || c.To == "auto" && log.Format == convert.Recording {
		write = log.WriteCSV
	}
	if err := c.write(std.Out, write); err != nil {
		return err
	}
	c.tell(std.Err, name, log)
	return nil
}

// write writes to --out, or to the standard output.
func (c *convertCmd) write(out io.Writer, write func(io.Writer) error) error {
	if c.Out == "" {
		return write(out)
	}
	f, err := os.Create(c.Out)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// tell says what was read, and what is missing.
func (c *convertCmd) tell(to io.Writer, name string, log *convert.Log) {
	say := func(format string, args ...any) { fmt.Fprintf(to, "weirlab convert: "+format+"\n", args...) }
	say("%s: %d requests (%s)", name, len(log.Requests), log.Format)
	if log.Cut != nil {
		say("%s: %s: the requests before that are read", name, strings.TrimPrefix(log.Cut.Error(), "recording: "))
	}
	if log.Skipped > 0 {
		say("%d lines are no requests, the first: %s", log.Skipped, log.FirstBad)
	}
	if log.Lost > 0 {
		say("%d requests have no record", log.Lost)
	}
	if len(log.Missing) > 0 {
		say("missing: %s", strings.Join(log.Missing, "; "))
	}
}
