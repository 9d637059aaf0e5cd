// Package blackbox has the recording of a running service: the last requests in memory, and in files the
// requests around each change of its condition for the worse.
package blackbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/operator"
)

// A file has the requests from Around before a change to Around after it.
const Around = time.Minute

const (
	longest  = 5 * time.Minute // after the first change of a file with several ones
	pace     = time.Second     // between two writes to a file
	maxFiles = 100             // in the directory
	share    = 4               // of the size of all files to that of one
)

// Config configures a Box.
type Config struct {
	// Records is how many records are kept in memory, of 32 bytes each. If zero, there are none.
	Records int
	// Dir is the directory for files. Each Box has one of its own. If empty, there are no files.
	Dir string
	// Size bounds the bytes of all files in Dir. The oldest ones are deleted. One has at most a quarter of it.
	Size int64
	Log  *slog.Logger
}

// A Box has the recording of a service. A nil Box has none. It is safe for concurrent use.
type Box struct {
	cfg      Config
	recorder *recording.Recorder
	changes  chan string // of capacity 1
	saved    atomic.Uint64
	failed   atomic.Uint64
	lost     atomic.Uint64
}

// Check returns an error if the flags contradict each other.
func (c *Config) Check() error {
	switch least := share * 2 * copied(c.Records); {
	case c.Dir == "":
	case c.Records == 0:
		return errors.New("--recordings needs --records")
	case c.Size < least:
		return fmt.Errorf("--recordings-size=%v: must be at least %v with --records=%d", bytesize.Size(c.Size), bytesize.Size(least), c.Records)
	}
	return nil
}

// New checks the Config, returns a Box, and creates its directory.
func New(cfg Config) (*Box, error) {
	if err := cfg.Check(); err != nil || cfg.Records == 0 {
		return nil, err
	}
	recorder, err := recording.New(recording.Config{Records: cfg.Records})
	if err != nil {
		return nil, fmt.Errorf("--records=%d: must be in [0, %d]", cfg.Records, recording.MaxRecords)
	}
	b := &Box{cfg: cfg, recorder: recorder, changes: make(chan string, 1)}
	if cfg.Dir != "" {
		err := prepare(cfg.Dir)
		if err == nil {
			err = b.tidy()
		}
		if err != nil {
			return nil, fmt.Errorf("--recordings: %w", err)
		}
	}
	return b, nil
}

// copied returns the most bytes that a copy of all records in memory has.
func copied(records int) int64 { return int64(records*recording.Size*9/8) + 1<<20 }

// Recorder returns the Recorder of the service, or nil.
func (b *Box) Recorder() *recording.Recorder {
	if b == nil {
		return nil
	}
	return b.recorder
}

// Note begins a file, or lets the present one go on, because the condition has changed. What says how, in a few
// letters.
func (b *Box) Note(what string) {
	if b == nil {
		return
	}
	select {
	case b.changes <- what:
	default: // another change is noted, and not yet seen
	}
}

// Start writes files until end is called, which finishes the present one. Until ctx ends it runs watches, which call Note.
// Without files, it does nothing.
func (b *Box) Start(ctx context.Context, watches ...func(ctx context.Context)) (end func()) {
	if b == nil || b.cfg.Dir == "" {
		return func() {}
	}
	watching, leave := context.WithCancel(ctx)
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, watch := range watches {
		running.Go(func() { watch(watching) })
	}
	running.Go(func() { b.run(writing) })
	return func() {
		leave()
		stop()
		running.Wait()
	}
}

func (b *Box) run(ctx context.Context) {
	for {
		select {
		case what := <-b.changes:
			b.keep(ctx, what)
		case <-ctx.Done():
			return
		}
	}
}

// keep writes a file about a change, and the ones that follow it closely.
func (b *Box) keep(ctx context.Context, what string) {
	now := b.recorder.Now()
	last, end := now+longest, now+Around
	f, err := b.create(what, now-Around)
	if err == nil {
		b.cfg.Log.Info("recording begins", "file", f.path+unfinished, "change", what)
		err = f.copy()
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	full := func() bool { return f.size+copied(b.cfg.Records) > b.cfg.Size/share }
	for ended := false; err == nil && b.recorder.Now() < end && !full() && !ended; {
		select {
		case <-b.changes:
			end = min(b.recorder.Now()+Around, last)
		case <-ctx.Done():
		case <-tick.C:
		}
		ended = ctx.Err() != nil // before the copy, which has the last requests
		err = f.copy()
	}
	if f != nil {
		b.lost.Add(f.tail.Lost())
		err = f.close(err)
	}
	if err == nil {
		b.saved.Add(1)
		b.cfg.Log.Info("recording saved", "file", f.path, "change", what, "bytes", f.size, "lost", f.tail.Lost(), "full", full())
		return
	}
	b.failed.Add(1)
	if f != nil && f.begun {
		b.cfg.Log.Error("the recording is cut off", "file", f.path, "change", what, "error", err)
	} else {
		b.cfg.Log.Error("the recording was not saved", "change", what, "error", err)
	}
	select { // a full disk is not asked again for each change
	case <-time.After(Around):
	case <-ctx.Done():
	}
}

// handed is how long a client may take to read a part of a recording.
const handed = 30 * time.Second

// ServeHTTP serves the requests that are in memory, or the ones of the time in the parameter last.
func (b *Box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b == nil {
		operator.Fail(w, http.StatusNotFound, "nothing is recorded: --records is 0")
		return
	}
	since := time.Duration(0)
	if text := r.URL.Query().Get("last"); text != "" {
		last, err := time.ParseDuration(text)
		if err != nil || last <= 0 {
			operator.Fail(w, http.StatusBadRequest, fmt.Sprintf("last=%q: want a time, such as 5m", text))
			return
		}
		since = b.recorder.Now() - last
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name("now", time.Now())}))
	to := recording.NewWriter(&slowly{w, http.NewResponseController(w)}, b.recorder.Epoch())
	_ = b.recorder.Tail().Copy(to, since) // the client may be gone
}

// A slowly writes to a client that may take some time for each part.
type slowly struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *slowly) Write(p []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(handed)) // not of every ResponseWriter
	return s.w.Write(p)
}

// The metrics of files. Without --recordings, they are not there.
var (
	saved    = metric.Counter("weir_recording_files_total", "Files that --recordings has saved.")
	failed   = metric.Counter("weir_recording_failures_total", "Files that --recordings could not save, or not to their end.")
	lost     = metric.Counter("weir_recording_lost_total", "Requests that are in no file although they came around a change of the condition, because they came faster than they were written.")
	Families = []*metric.Family{saved, failed, lost}
)

// Collect sends the metrics.
func (b *Box) Collect(s metric.Scrape) {
	if b == nil || b.cfg.Dir == "" {
		return
	}
	s.Send(saved, float64(b.saved.Load()))
	s.Send(failed, float64(b.failed.Load()))
	s.Send(lost, float64(b.lost.Load()))
}
