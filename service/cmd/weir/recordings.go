package main

import (
	"log/slog"

	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/settings"
)

// recordings are the flags of the recording.
type recordings struct {
	Records        int           `least:"0" most:"67108864" default:"500000" placeholder:"N" group:"recording" help:"How many requests have a record in memory, of 32 bytes each, for GET /-/recording?last=5m; 0: none (${default})."`
	Recordings     string        `placeholder:"DIR" group:"recording" help:"A directory of this process for recordings: of the minute before and the minute after each change of the condition for the worse, such as when requests begin to be rejected. The latest 100 files are kept."`
	RecordingsSize settings.Size `least:"16777216" default:"1GiB" placeholder:"SIZE" group:"recording" help:"Maximum size of all recordings. The oldest are deleted; one has at most a quarter of it (${default})."`
}

func (c *recordings) box(log *slog.Logger) (*blackbox.Box, error) {
	cfg := blackbox.Config{Records: c.Records, Dir: c.Recordings, Size: int64(c.RecordingsSize), Log: log}
	if err := cfg.Check(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return blackbox.New(cfg)
}
