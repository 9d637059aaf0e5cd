package decisionlog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Settings are the flags of weir serve.
type Settings struct {
	Dir        string        `name:"record-decisions" placeholder:"DIR" help:"Record each decision about tokens in files of this directory, for weir check --against. Keys are fingerprinted; docs/decisions.md says what the files tell about them. Each instance needs a directory of its own."`
	Size       bytesize.Size `name:"decisions-size" least:"1048576" default:"256MiB" placeholder:"SIZE" help:"The most disk space for decisions; the oldest files are removed (${default})."`
	SaltFile   string        `name:"decisions-salt-file" needs:"record-decisions" placeholder:"FILE" help:"Keep the salt of the fingerprints in this file, which is created if there is none, and not with the decisions."`
	Separators string        `name:"decisions-separators" default:":/?&,; " placeholder:"TEXT" help:"The characters between the segments of keys, each of which gets a fingerprint; | and = are always among them (\"${default}\")."`
}

// A Recording records the decisions of a process. If nil, none are recorded.
type Recording struct {
	*Recorder
	*Directory
	settings Settings
}

// Check returns an error if a flag is wrong.
func (s *Settings) Check() error {
	if s.Dir == "" {
		return nil
	}
	if err := CheckSeparators(s.Separators); err != nil {
		return fmt.Errorf("--decisions-separators=%w", err)
	}
	return nil
}

// Record checks the Settings, and returns a Decider for transports and, if decisions are recorded, a Recording.
func (s Settings) Record(d decider.Decider) (decider.Decider, *Recording, error) {
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	if s.Dir == "" {
		return d, nil, nil
	}
	r := New()
	return Record(d, r), &Recording{Recorder: r, settings: s}, nil
}

// Start opens the first file, and writes decisions until stop is called. now, if not nil, has the instants of all verdicts: see
// Follow. No decision must come before.
func (r *Recording) Start(info Info, now func() time.Duration, log *slog.Logger) (stop func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	if now != nil {
		r.Follow(now)
	}
	s := &r.settings
	info.Separators = "|=" + s.Separators
	cfg := Config{
		Path: s.Dir, MaxBytes: int64(s.Size), SaltApart: s.SaltFile != "", Salt: NewSalt(), Info: info,
		OnError: func(err error) {
			if err != nil {
				log.Error("decisions are not recorded", "dir", s.Dir, "error", err)
			} else {
				log.Info("decisions are recorded again", "dir", s.Dir)
			}
		},
	}
	if cfg.SaltApart {
		if cfg.Salt, err = LoadSalt(s.SaltFile, true); err != nil {
			return nil, fmt.Errorf("--decisions-salt-file: %w", err)
		}
	}
	if r.Directory, err = Open(cfg, r.Recorder); err != nil {
		return nil, fmt.Errorf("--record-decisions: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() { cancel(); <-done }, nil
}
